/* SPDX-License-Identifier: Apache-2.0
 * system(3) as libc has it, but it waits by the preload's waitpid(), which knows what a restart
 * does to the child's number. libc's own waits by a system call that cannot be mended. */
#include "config.h"

#include <errno.h>
#include <paths.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* While at least one call runs, the process ignores SIGINT and SIGQUIT. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned running;
static struct sigaction interrupt, quit;

static void begin(sigset_t *defaults)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigemptyset(defaults);
	pthread_mutex_lock(&lock);
	if (!running++) {
		sigaction(SIGINT, &ignore, &interrupt);
		sigaction(SIGQUIT, &ignore, &quit);
	}
	if (interrupt.sa_handler != SIG_IGN)
		sigaddset(defaults, SIGINT);
	if (quit.sa_handler != SIG_IGN)
		sigaddset(defaults, SIGQUIT);
	pthread_mutex_unlock(&lock);
}

static void end(void)
{
	pthread_mutex_lock(&lock);
	if (!--running) {
		sigaction(SIGINT, &interrupt, NULL);
		sigaction(SIGQUIT, &quit, NULL);
	}
	pthread_mutex_unlock(&lock);
}

/* The thread is cancelled while it waits. */
static void give_up(void *arg)
{
	const pid_t *pid = arg;

	kill(*pid, SIGKILL);
	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	end();
}

static int await(pid_t pid)
{
	int status;
	pid_t ended;

	pthread_cleanup_push(give_up, &pid);
	do
		ended = waitpid(pid, &status, 0);
	while (ended < 0 && errno == EINTR);
	pthread_cleanup_pop(0);
	return ended == pid ? status : -1;
}

static int spawn(const char *line, const sigset_t *defaults, const sigset_t *mask, pid_t *pid)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)line, NULL };
	posix_spawnattr_t how;
	int failed;

	posix_spawnattr_init(&how);
	posix_spawnattr_setsigmask(&how, mask);
	posix_spawnattr_setsigdefault(&how, defaults);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	failed = posix_spawn(pid, _PATH_BSHELL, NULL, &how, argv, environ);
	posix_spawnattr_destroy(&how);
	return failed;
}

static int run(const char *line)
{
	sigset_t child, before, defaults;
	int status, failed;
	pid_t pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	begin(&defaults);
	sigprocmask(SIG_BLOCK, &child, &before);
	failed = spawn(line, &defaults, &before, &pid);
	status = failed ? W_EXITCODE(127, 0) : await(pid);
	end();
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (failed)
		errno = failed;
	return status;
}

GCK_EXPORT int system(const char *line)
{
	return line ? run(line) : run("exit 0") == 0;
}
