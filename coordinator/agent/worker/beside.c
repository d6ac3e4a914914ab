/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/worker/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/place/owner.h"

/* Root's ranks have no user namespace of their own (shim/preload/start/apart.c). */
static int enter(pid_t rank)
{
	int fd = (int)syscall(SYS_pidfd_open, rank, 0);
	int kinds = CLONE_NEWPID | CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);
	int rc = fd < 0 ? -1 : setns(fd, kinds);

	if (fd >= 0)
		close(fd);
	return rc;
}

static _Noreturn void end_as(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			_exit(1);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void close_all_but(int fd)
{
	if (fd > 0)
		close_range(0, (unsigned)fd - 1, 0);
	close_range((unsigned)fd + 1, ~0u, 0);
}

/* A parent that has ended before its child asked for its signal has closed the socket. */
static void die_with_parent(int socket)
{
	struct pollfd p = { .fd = socket };

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* new rights reset it */
	if (poll(&p, 1, 0) != 0)
		_exit(1);
}

static _Noreturn void fail(pid_t rank)
{
	gck_warn("no worker in the namespaces of process %d: %s", (int)rank, strerror(errno));
	_exit(1);
}

/* Entering a PID namespace is a matter of children: two forks. */
void beside_enter(pid_t rank)
{
	int owners[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, owners) < 0 ||
	    (pid = fork()) < 0)
		fail(rank);
	if (pid) {
		close_all_but(owners[0]);
		gck_owner_serve(owners[0]);
		end_as(pid);
	}
	close(owners[0]);
	if (enter(rank) < 0)
		fail(rank);
	die_with_parent(owners[1]);
	pid = fork();
	if (pid < 0)
		fail(rank);
	if (pid) {
		close_all_but(owners[1]);
		end_as(pid);
	}
	die_with_parent(owners[1]);
	gck_owner_ask(owners[1]);
}

static void tell_able(FILE *to, pid_t number, const struct gck_link_hello *hello,
		      const struct gck_options *o)
{
	struct gck_error err;
	json_t *found = gck_process_able(number, hello, o, &err);
	json_t *said = found ? found : json_pack("{s:i, s:s}", "code", err.code, "text", err.text);

	json_dumpf(said, to, JSON_COMPACT);
	fclose(to);
}

json_t *beside_able(pid_t rank, pid_t number, const struct gck_link_hello *hello,
		    const struct gck_options *o, struct gck_error *err)
{
	json_t *said = NULL;
	int ends[2], status;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) == 0) {
		pid = fork();
		if (pid == 0) {
			beside_enter(rank);
			tell_able(fdopen(ends[1], "w"), number, hello, o);
			_exit(0);
		}
		close(ends[1]);
		if (pid > 0)
			said = json_loadfd(ends[0], 0, NULL);
		close(ends[0]);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (json_is_array(said))
		return said;
	gck_fail(err, said ? (int)json_integer_value(json_object_get(said, "code")) : EIO, "%s",
		 said ? json_string_value(json_object_get(said, "text"))
		      : "no process could look at it in its namespaces");
	json_decref(said);
	return NULL;
}
