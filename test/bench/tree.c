/* SPDX-License-Identifier: Apache-2.0
 * tree PROCESSES MIB SHARED [TIMES]: a process that makes the others. Each has MIB of noise of its
 * own, and all have SHARED MiB in one mapping. Once all have their memory the first prints "ready";
 * then each changes a page of either ten times a second, without an end. With TIMES all fork at the
 * same moment instead, as often, once a second; the first prints the milliseconds until the last
 * has forked, one a line. */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 512 /* words */

static struct progress {
	atomic_uint ready, round, forked;
} *progress;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *map(size_t size, int how)
{
	void *p = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0)
		       : NULL;

	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static void fill(uint64_t *memory, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size / 8; i++)
		memory[i] = (i + seed * (1u << 30)) * 0x9e3779b97f4a7c15u + 1;
}

static void change(uint64_t *memory, size_t size, size_t step)
{
	if (size)
		memory[step * PAGE % (size / 8)]++;
}

static void await(atomic_uint *count, unsigned n)
{
	while (*count < n)
		usleep(50);
}

static void fork_once(unsigned round)
{
	pid_t pid;

	await(&progress->round, round);
	pid = fork();
	if (!pid)
		_exit(0);
	progress->forked++;
	waitpid(pid, NULL, 0);
}

static void fork_first(unsigned round, unsigned processes)
{
	double begin;

	sleep(1);
	begin = now_ms();
	progress->round = round;
	fork_once(round);
	await(&progress->forked, round * processes);
	printf("%.3f\n", now_ms() - begin);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	unsigned processes = (unsigned)atoi(argv[1]), number = 0;
	size_t size = strtoul(argv[2], NULL, 10) << 20, shared = strtoul(argv[3], NULL, 10) << 20;
	unsigned times = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	struct timespec tenth = {.tv_nsec = 100000000};
	uint64_t *theirs = map(shared, MAP_SHARED), *own;

	progress = map(sizeof *progress, MAP_SHARED);
	fill(theirs, shared, processes);
	while (++number < processes && fork())
		;
	number %= processes; /* the last of the loop is the first */
	if (number)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	own = map(size, MAP_PRIVATE);
	fill(own, size, number);
	progress->ready++;
	if (!number) {
		await(&progress->ready, processes);
		if (!times)
			puts("ready");
		fflush(stdout);
	}
	for (unsigned i = 1; i <= times; i++) {
		if (number)
			fork_once(i);
		else
			fork_first(i, processes);
	}
	if (times)
		return 0;
	for (size_t i = 0;; i++) {
		change(own, size, i);
		change(theirs, shared, i);
		nanosleep(&tenth, NULL);
	}
}
