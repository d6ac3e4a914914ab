/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/test/apart_module.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map(void *at, size_t length, int prot, int flags)
{
	return mmap(at, length, prot, flags, -1, 0);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static void (*exit_note)(char mark), (*fork_note)(char mark);
static char exit_mark;

static void exits(void)
{
	exit_note(exit_mark);
}

static void register_exit(void (*note)(char mark), char mark)
{
	exit_note = note;
	exit_mark = mark;
	atexit(exits);
}

static void before(void)
{
	fork_note('b');
}

static void in_parent(void)
{
	fork_note('p');
}

static void in_child(void)
{
	fork_note('c');
}

static void register_forks(void (*note)(char mark))
{
	fork_note = note;
	pthread_atfork(before, in_parent, in_child);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *call(void *p)
{
	int (**callback)(void) = p;

	return (void *)(long)(*callback)();
}

static int in_thread(int (*callback)(void))
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, call, &callback) || pthread_join(thread, &result))
		return -1;
	return (int)(long)result;
}

static void *call_and_stay(void *p)
{
	call(p);
	for (;;)
		pause();
	return NULL;
}

static void stay(int (*callback)(void))
{
	static int (*called)(void);
	pthread_t thread;

	called = callback;
	pthread_create(&thread, NULL, call_and_stay, &called);
}

static int is_space(int c)
{
	return isspace(c) != 0;
}

/* ---- processes ------------------------------------------------------------------------------- */

static pid_t pid_by_number(void)
{
	return (pid_t)syscall(SYS_getpid);
}

static int kill_it(pid_t pid)
{
	errno = 0;
	return kill(pid, 0) ? errno : 0;
}

static int open_it(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? errno : close(fd);
}

static int fopen_it(const char *path)
{
	FILE *f = fopen(path, "re");

	return f ? fclose(f) : errno;
}

static int opendir_it(const char *path)
{
	DIR *d = opendir(path);

	return d ? closedir(d) : errno;
}

__attribute__((visibility("default"))) const struct apart_module apart_module = {
	.map = map,
	.unmap = munmap,
	.allocate = malloc,
	.free = free,
	.at_exit = register_exit,
	.at_fork = register_forks,
	.in_thread = in_thread,
	.stay = stay,
	.is_space = is_space,
	.pid = getpid,
	.pid_by_number = pid_by_number,
	.kill = kill_it,
	.open = open_it,
	.fopen = fopen_it,
	.opendir = opendir_it,
};
