/* SPDX-License-Identifier: Apache-2.0
 * lines [OUTPUT]: copies standard input line by line to OUTPUT.RANK, or to standard output, and
 * ends with its input. Until the file LINES_UNTIL exists, it pauses after each line. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LINE 4096
#define PAUSE_MS 5

int main(int argc, char **argv)
{
	const char *rank = getenv("SLURM_PROCID"), *until = getenv("LINES_UNTIL");
	struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	char path[LINE], line[LINE];
	FILE *out = stdout;

	if (argc > 1) {
		snprintf(path, sizeof path, "%s.%s", argv[1], rank ? rank : "0");
		out = fopen(path, "a");
	}
	if (!out)
		return 1;
	while (fgets(line, sizeof line, stdin)) {
		if (fputs(line, out) < 0 || fflush(out))
			return 1;
		if (until && access(until, F_OK))
			nanosleep(&pause, NULL);
	}
	return fclose(out) != 0;
}
