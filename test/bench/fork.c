/* SPDX-License-Identifier: Apache-2.0
 * fork MIB TIMES: the milliseconds of a bare fork of a process with MIB of touched memory, like
 * that of test/programs/burn.c, one a line. The child ends at once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	struct timespec pause = {.tv_sec = 1};

	if (argc != 3)
		return 2;
	size_t words = strtoul(argv[1], NULL, 10) * 131072;
	uint64_t *memory = aligned_alloc(4096, words * 8);

	if (!memory)
		return 1;
	for (size_t i = 0; i < words; i++)
		memory[i] = i * 0x9e3779b97f4a7c15u + 1;
	for (int i = atoi(argv[2]); i > 0; i--) {
		double begin = now_ms();
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		printf("%.3f\n", now_ms() - begin);
		fflush(stdout);
		waitpid(pid, NULL, 0);
		nanosleep(&pause, NULL);
	}
	return 0;
}
