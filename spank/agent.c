/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKLOG 4096
#define FIRST_FREE_FD 16 /* above all descriptors that the agent gets */
#define SEND_BUFFER (8 << 20)
#define REPORT_MS 5000

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void gck_agent_forked(struct gck_agent *a)
{
	drop(&a->peer);
	drop(&a->listener);
	drop(&a->ready[0]);
	drop(&a->ready[1]);
}

static void forget(struct gck_agent *a)
{
	gck_agent_forked(a);
	drop(&a->control);
}

/* ---- sockets -------------------------------------------------------------------------------- */

/* A random name, which no other process on the node can take first. All names have the same length,
 * so that the new step's name replaces the old one in a restored rank's environment. */
static int name_link(struct gck_agent *a, struct gck_error *err)
{
	uint64_t random;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return gck_fail(err, errno, "no random numbers for a socket's name: %s",
				strerror(errno));
	snprintf(a->link, sizeof a->link, "gpuckpt-%016llx", (unsigned long long)random);
	return 0;
}

static int listen_at(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path + 1, name, n);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int gck_agent_prepare(struct gck_agent *a, struct gck_error *err)
{
	int pair[2];

	*a = (struct gck_agent)GCK_AGENT_NONE;
	if (name_link(a, err))
		return -1;
	a->listener = listen_at(a->link);
	if (a->listener < 0)
		return gck_fail(err, errno, "no socket for the ranks' link: %s", strerror(errno));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		a->control = pair[0];
		a->peer = pair[1];
		if (pipe2(a->ready, O_CLOEXEC) == 0)
			return 0;
	}
	gck_fail(err, errno, "no socket for the agent: %s", strerror(errno));
	forget(a);
	return -1;
}

/* ---- start ---------------------------------------------------------------------------------- */

static void default_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Give the agent its descriptors and close all others. -1 with errno. */
static int arrange_fds(const struct gck_agent *a, int *report)
{
	int control = fcntl(a->peer, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	int listener = fcntl(a->listener, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	int up = fcntl(*report, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high = fcntl(null, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

	if (control < 0 || listener < 0 || up < 0 || high < 0)
		return -1;
	*report = up;
	if (dup2(control, GCK_AGENT_CONTROL_FD) < 0 || dup2(high, 1) < 0 || dup2(high, 2) < 0 ||
	    dup2(listener, GCK_AGENT_LISTEN_FD) < 0 || dup2(up, GCK_AGENT_REPORT_FD) < 0)
		return -1;
	*report = GCK_AGENT_REPORT_FD;
	return close_range(GCK_AGENT_REPORT_FD + 1, ~0u, 0);
}

/* Report in place of the agent. No other process has this pipe yet, and a line fits into it. */
static _Noreturn void report_failure(int report)
{
	_exit(dprintf(report, "%s\n", strerror(errno)) < 0 ? 126 : 127);
}

static _Noreturn void become_agent(const struct gck_agent *a, int report, const char *path,
				   char *const argv[], char *const envp[])
{
	default_signals();
	umask(077);
	if (chdir("/") == 0 && arrange_fds(a, &report) == 0)
		execve(path, argv, envp);
	report_failure(report);
}

/* The first child exits at once, so that the agent is not a child of the task. */
static _Noreturn void fork_again(const struct gck_agent *a, int report, const char *path,
				 char *const argv[], char *const envp[])
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid == 0)
		become_agent(a, report, path, argv, envp);
	if (pid < 0)
		report_failure(report);
	_exit(0);
}

/* Wait for the report. After REPORT_MS the step goes on: a slow agent still answers the ranks. */
static bool await_report(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, REPORT_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static int read_report(int fd, const char *path, struct gck_error *err)
{
	char line[sizeof err->text];
	size_t used = 0;
	ssize_t n = 1;

	while (n > 0 && used < sizeof line - 1 && !memchr(line, '\n', used)) {
		if (!await_report(fd))
			return 0;
		n = read(fd, line + used, sizeof line - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	line[used] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "ok") == 0)
		return 0;
	return gck_fail(err, ECHILD, "the agent %s was not started: %s", path, *line ? line :
			"it ended without a word (does ldd find its libraries on this node?)");
}

int gck_agent_start(const struct gck_agent *a, const char *path, char *const argv[],
		    char *const envp[], struct gck_error *err)
{
	int report[2], rc;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		return gck_fail(err, errno, "the agent was not started: pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		fork_again(a, report[1], path, argv, envp);
	rc = pid > 0 ? 0 : gck_fail(err, errno, "the agent was not started: fork: %s",
				    strerror(errno));
	close(report[1]);
	if (rc == 0)
		rc = read_report(report[0], path, err);
	close(report[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return rc;
}

/* ---- ready ---------------------------------------------------------------------------------- */

void gck_agent_announce(struct gck_agent *a, bool up, unsigned tasks)
{
	char word = up;

	while (tasks-- > 1)
		if (write(a->ready[1], &word, 1) < 0)
			break;
	gck_agent_forked(a);
}

bool gck_agent_is_up(struct gck_agent *a)
{
	char word = 0;
	ssize_t n;

	drop(&a->ready[1]);
	do
		n = read(a->ready[0], &word, 1);
	while (n < 0 && errno == EINTR);
	gck_agent_forked(a);
	return n == 1 && word;
}

/* ---- control -------------------------------------------------------------------------------- */

/* Hundreds of tasks are reported before the agent reads the first: root enlarges the buffer. */
static bool enlarge_buffer(int fd)
{
	int size = SEND_BUFFER, saved = errno;
	bool good = setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0;

	errno = saved;
	return good;
}

static int send_now(int fd, const struct gck_control *m)
{
	return send(fd, m, sizeof *m, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof *m ? 0 : -1;
}

int gck_agent_tell(const struct gck_agent *a, enum gck_control_type type, uint32_t rank, pid_t pid,
		   int status, struct gck_error *err)
{
	struct gck_control m = { .type = type, .rank = rank, .pid = pid, .status = status };

	if (a->control < 0)
		return gck_fail(err, ENOTCONN, "there is no agent");
	if (send_now(a->control, &m) == 0)
		return 0;
	if (errno == EAGAIN && enlarge_buffer(a->control) && send_now(a->control, &m) == 0)
		return 0;
	return gck_fail(err, errno, "the agent was not told of task %u: %s", rank, strerror(errno));
}

void gck_agent_finish(struct gck_agent *a, int timeout_ms)
{
	struct pollfd p = { .fd = a->control }; /* POLLHUP is always reported */

	if (a->control < 0)
		return;
	if (gck_agent_tell(a, GCK_CONTROL_END, 0, 0, 0, NULL) == 0)
		poll(&p, 1, timeout_ms);
	forget(a);
}
