/* SPDX-License-Identifier: Apache-2.0
 * Random trees of processes (tree_program) are checkpointed, killed and restored, and end as if
 * nothing had happened. `test_trees [COUNT [FIRST]]`: the seeds. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define SEEDS 12
#define LONG_SEEDS 1000
#define RESTARTS 2

/* Returns what went wrong. */
static const char *live_through(struct lineage *l)
{
	if (lineage_start(l))
		return "start";
	for (int i = 0; i < RESTARTS; i++) {
		pause_ms(10 + rand() % 120);
		if (lineage_checkpoint(l))
			return "checkpoint";
		if (i % 2)
			pause_ms(rand() % 20);
		lineage_kill(l);
		if (lineage_restore(l, l->seq))
			return "restore";
	}
	return lineage_wait(l) ? "end" : NULL;
}

static void test_seed(unsigned seed)
{
	char directory[] = "/tmp/gpuckpt-tree-XXXXXX", alone[300], got[300], text[24], command[300];
	char *argv[] = {(char *)GCK_TREE_PROGRAM, text, (char *)"400", directory, NULL};
	const char *wrong;
	struct lineage l;

	srand(seed);
	snprintf(text, sizeof text, "%u", seed);
	if (!mkdtemp(directory) || lineage_begin(&l, "/tmp", argv)) {
		ok(false, "seed %u: a store", seed);
		return;
	}
	wrong = lineage_alone(&l) ? "alone" : NULL;
	snprintf(alone, sizeof alone, "%s", lineage_output(&l));
	if (!wrong)
		wrong = live_through(&l);
	snprintf(command, sizeof command, "sed 's/^/# /' %s/out", l.directory);
	if (wrong && system(command))
		printf("# no output\n");
	snprintf(got, sizeof got, "%s", lineage_output(&l));
	ok(!wrong && !strcmp(got, alone), "%s", alone);
	if (wrong)
		printf("# seed %u: %s\n", seed, wrong);
	lineage_end(&l);
	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (system(command))
		printf("# %s is not removed\n", directory);
}

int main(int argc, char **argv)
{
	unsigned count = tap_is_long() ? LONG_SEEDS : SEEDS;
	unsigned first = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

	if (argc > 1)
		count = (unsigned)atoi(argv[1]);
	for (unsigned seed = first; seed < first + count; seed++)
		test_seed(seed);
	return tap_done();
}
