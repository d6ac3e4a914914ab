/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/test/commands.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int words = -1; /* its standard input */
static FILE *answers;

bool told_start(struct lineage *l)
{
	char path[300];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || dup2(ends[0], 0))
		return false;
	words = ends[1];
	snprintf(path, sizeof path, "%s/out", l->directory);
	unlink(path);
	return lineage_start(l) == 0 && (answers = fopen(path, "re"));
}

void told_restored(void)
{
	struct stat st;

	if (!fstat(fileno(answers), &st) && ftello(answers) > st.st_size)
		fseeko(answers, 0, SEEK_END);
}

void told_begin(const char *word)
{
	dprintf(words, "%s\n", word);
}

int told_answer(int most_ms)
{
	char line[32] = "";

	for (int ms = 0; ms < most_ms && !fgets(line, sizeof line, answers); ms += 5) {
		clearerr(answers);
		pause_ms(5);
	}
	return *line ? atoi(line) : -1000;
}

int told(const char *word)
{
	told_begin(word);
	return told_answer(WAIT_MS);
}
