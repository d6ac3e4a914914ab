/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/input_relay.h"

#define FIRST_FREE_FD 16 /* above all descriptors that the relay gets */
#define NAMES 10         /* pipes to try: another user may have taken a name */

struct start {
	int fds[GCK_INPUT_FDS];
	int input;     /* the task's end of the new pipe */
	int report[2]; /* errno, if the relay was not executed */
};

/* ---- the relay's descriptors ---------------------------------------------------------------- */

static int make_pipe(struct start *s, struct stat *st)
{
	int end[2], size = fcntl(STDIN_FILENO, F_GETPIPE_SZ);

	if (pipe2(end, O_CLOEXEC))
		return -1;
	s->input = end[0];
	s->fds[GCK_INPUT_SINK] = end[1];
	if (size > 0)
		fcntl(end[0], F_SETPIPE_SZ, size);
	fcntl(end[0], F_SETFL, fcntl(STDIN_FILENO, F_GETFL));
	return fstat(end[0], st);
}

static void drop_pipe(struct start *s)
{
	close(s->input);
	close(s->fds[GCK_INPUT_SINK]);
	s->input = s->fds[GCK_INPUT_SINK] = -1;
}

/* A pipe, and the socket that listens under its name. */
static int make_named_pipe(struct start *s)
{
	int listener = s->fds[GCK_INPUT_LISTENER] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC,
							   0);
	struct sockaddr_un a;
	struct stat st;

	for (int i = 0; listener >= 0 && i < NAMES; i++) {
		if (make_pipe(s, &st))
			return -1;
		if (bind(listener, (struct sockaddr *)&a, gck_input_address(st.st_ino, &a)) == 0)
			return listen(listener, 4);
		if (errno != EADDRINUSE)
			return -1;
		drop_pipe(s);
	}
	return -1;
}

static void close_all(const struct start *s)
{
	for (int i = 0; i < GCK_INPUT_FDS; i++)
		if (i != GCK_INPUT_SOURCE && s->fds[i] >= 0)
			close(s->fds[i]);
	for (int i = 0; i < 2; i++)
		if (s->report[i] >= 0)
			close(s->report[i]);
	if (s->input >= 0)
		close(s->input);
}

static int prepare(struct start *s)
{
	*s = (struct start){ .fds = { STDIN_FILENO, -1, -1, -1 }, .input = -1,
			     .report = { -1, -1 } };
	s->fds[GCK_INPUT_TASK] = (int)syscall(SYS_pidfd_open, getpid(), 0);
	return s->fds[GCK_INPUT_TASK] < 0 || pipe2(s->report, O_CLOEXEC) ? -1 : make_named_pipe(s);
}

/* ---- start ---------------------------------------------------------------------------------- */

static int arrange_fds(struct start *s)
{
	int high[GCK_INPUT_FDS];

	s->report[1] = fcntl(s->report[1], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	for (int i = 0; i < GCK_INPUT_FDS; i++)
		if ((high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD)) < 0)
			return -1;
	for (int i = 0; i < GCK_INPUT_FDS; i++)
		if (dup2(high[i], i) < 0)
			return -1;
	if (close_range(GCK_INPUT_FDS, ~0u, CLOSE_RANGE_CLOEXEC))
		return -1;
	return s->report[1];
}

static _Noreturn void become_relay(struct start *s, const char *path, pid_t task)
{
	char name[] = "gpuckpt-input", pid[16], *argv[] = { name, pid, NULL }, *envp[] = { NULL };
	int code;

	snprintf(pid, sizeof pid, "%d", (int)task);
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_IGN);
	if (chdir("/") == 0 && arrange_fds(s) >= 0)
		execve(path, argv, envp);
	code = errno;
	_exit(write(s->report[1], &code, sizeof code) < 0);
}

/* The first child exits at once, so that the relay is not a child of the task. */
static int launch(struct start *s, const char *path)
{
	pid_t task = getpid(), first = fork();
	int code = 0;

	if (first == 0) {
		pid_t second = setsid() < 0 ? -1 : fork();

		if (second == 0)
			become_relay(s, path, task);
		code = second < 0 ? errno : 0;
		_exit(code && write(s->report[1], &code, sizeof code) < 0);
	}
	if (first < 0)
		return -1;
	while (waitpid(first, NULL, 0) < 0 && errno == EINTR)
		;
	close(s->report[1]);
	s->report[1] = -1;
	if (read(s->report[0], &code, sizeof code) == sizeof code)
		return errno = code, -1;
	return 0;
}

int gck_input_relay(const char *agent_path, struct gck_error *err)
{
	const char *slash = strrchr(agent_path, '/');
	char path[PATH_MAX + 16];
	struct start s;
	struct stat st;
	int rc;

	if (fstat(STDIN_FILENO, &st) || !S_ISFIFO(st.st_mode))
		return 0;
	snprintf(path, sizeof path, "%.*sgpuckpt-input", slash ? (int)(slash + 1 - agent_path) : 0,
		 agent_path);
	if (prepare(&s) || launch(&s, path) || dup2(s.input, STDIN_FILENO) < 0)
		rc = gck_fail(err, errno, "standard input cannot be counted by %s: %s", path,
			      strerror(errno));
	else
		rc = 0;
	close_all(&s);
	return rc;
}
