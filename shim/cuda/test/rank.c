/* SPDX-License-Identifier: Apache-2.0
 * A rank with CUDA that reads commands from standard input, one a line, and prints one line for
 * each. */
#define _GNU_SOURCE
#include "shim/cuda/test/rank.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/test/hash_kernel.h"
#include "shim/cuda/test/kernels.h"

struct rank rank;
static bool ending;

static int init(void)
{
	int rc = cuInit(0) | cuDevicePrimaryCtxRetain(&rank.context, 0) |
		 cuCtxSetCurrent(rank.context);

	rc |= cuStreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING) | cuMemAlloc(&rank.data, SIZE);
	rc |= cuMemsetD8(rank.data, 3, SIZE) | cuMemAllocHost((void **)&rank.flag, 16);
	return rc | cuModuleLoadData(&rank.module, ".version 6.3\n") | cuCtxSynchronize();
}

/* Put a file of the program at that number. 0: a child has it too. */
static int replace(int fd)
{
	int status = -1;
	pid_t pid = dup2(0, fd) == fd ? fork() : -1;

	if (pid == 0)
		_exit(fcntl(fd, F_GETFD) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Limit descriptors to numbers below this one. */
static int limit(int n)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return -1;
	l.rlim_cur = (rlim_t)n;
	return setrlimit(RLIMIT_NOFILE, &l);
}

static int future(void)
{
	int (*f)(int *) = NULL, value = 0;
	CUresult rc = cuGetProcAddress_v2("cuFakeFuture", (void **)&f, 13000, 0, NULL);

	return rc ? (int)rc : f(&value);
}

/* Call a function without its signature, so that it fails. */
static int use(const char *function)
{
	int (*f)(void *, void *, void *) = dlsym(RTLD_DEFAULT, function);

	return f ? !f(NULL, NULL, NULL) : -1;
}

static int end(void)
{
	ending = true;
	exit(0);
}

/* In exit(), after the driver's own handler: say so, and linger until the end of the input. */
static void exits(void)
{
	char line[64];

	if (ending)
		puts("0");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		;
}

/* ---- commands ------------------------------------------------------------------------------- */

static const struct rank_command process_commands[] = {
	{"init", init},
	{"future", future},
	{"exit", end},
	{"close", .run_number = close},
	{"replace", .run_number = replace},
	{"limit", .run_number = limit},
	{NULL},
};

static const struct rank_command *const all_commands[] = {
	process_commands, rank_memory_commands, rank_stream_commands,
	rank_model_commands, rank_obstacle_commands,
};

/* The number behind the word, or NULL. */
static const char *number_of(const char *line, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(line, word, n) && line[n] == ' ' && isdigit((unsigned char)line[n + 1])
		       ? line + n + 1 : NULL;
}

static int run(const char *line)
{
	if (!strncmp(line, "use ", 4))
		return use(line + 4);
	for (size_t i = 0; i < sizeof all_commands / sizeof *all_commands; i++) {
		for (const struct rank_command *c = all_commands[i]; c->word; c++) {
			const char *number = c->run_number ? number_of(line, c->word) : NULL;

			if (number)
				return c->run_number(atoi(number));
			if (c->run && !strcmp(line, c->word))
				return c->run();
		}
	}
	return -99;
}

int main(void)
{
	char line[64];

	atexit(exits);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		printf("%d\n", run(line));
		fflush(stdout);
	}
	return 0;
}
