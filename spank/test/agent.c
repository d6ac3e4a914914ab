/* SPDX-License-Identifier: Apache-2.0
 * The agent's start and messages to it, without Slurm: this process acts as slurmstepd, its
 * children as the tasks. */
#include "config.h"

#include "spank/agent.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/tap.h"

static char stub[PATH_MAX];
static struct gck_error err;
static char ready[] = "REPORT=ok";
static const char *why_not; /* what the error has to say */

static const char *heard(const struct gck_agent *a)
{
	static char line[257];
	ssize_t n = recv(a->control, line, sizeof line - 1, 0);

	line[n > 0 ? n : 0] = '\0';
	return line;
}

static int status_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A task with descriptors without close-on-exec and with blocked and ignored signals, as Slurm's
 * may have. Exit status 0: the agent runs; 1: it does not. */
static pid_t fork_first(struct gck_agent *a, const char *path, char *env, unsigned tasks)
{
	static char name[] = "gpuckpt-agent", dashes[] = "--", program[] = "/bin/prog";
	char *argv[] = { name, dashes, program, NULL }, *envp[] = { env, NULL };
	pid_t pid = fork();
	sigset_t all;
	bool up;

	if (pid != 0)
		return pid;
	for (int i = 0; i < 20; i++)
		if (dup(1) < 0)
			_exit(9);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	signal(SIGTERM, SIG_IGN);
	up = gck_agent_start(a, path, argv, envp, &err) == 0;
	if (!up && (!strstr(err.text, path) || !strstr(err.text, why_not)))
		_exit(9);
	gck_agent_announce(a, up, tasks);
	_exit(!up);
}

static pid_t fork_other(struct gck_agent *a)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(!gck_agent_is_up(a));
	return pid;
}

static void test_start(void)
{
	struct gck_agent a;
	pid_t first, other[2];

	is_int(gck_agent_prepare(&a, &err), 0, "sockets");
	is_int(strspn(a.link, "gpuckpt-0123456789abcdef"), 24, "the link's name");
	is_int(strlen(a.link), 24, "has the length of all names");
	other[0] = fork_other(&a);
	first = fork_first(&a, stub, ready, 3);
	other[1] = fork_other(&a);
	gck_agent_forked(&a);
	ok(all_of(a.peer < 0, a.listener < 0, a.control >= 0), "slurmstepd keeps its own end only");
	is_int(status_of(first), 0, "the first task starts the agent");
	is_int(status_of(other[0]), 0, "the other tasks are told");
	is_int(status_of(other[1]), 0, "both of the others");
	is_str(heard(&a), "fds 0 1 2 3 4", "the agent's descriptors");
	is_str(heard(&a), "signals 0 ignored or caught, 0 blocked", "its signals");
	is_str(heard(&a), "session own, umask 077, cwd /", "its session, umask and directory");
	is_str(heard(&a), "arguments 3: gpuckpt-agent -- /bin/prog", "its arguments");
	is_str(heard(&a), "environment REPORT=ok", "its environment");
	is_int(gck_agent_tell(&a, GCK_CONTROL_TASK, 5, 123, 0, &err), 0, "tell it of a task");
	is_str(heard(&a), "task 5 of type 1, pid 123, status 0", "a task");
	is_int(gck_agent_tell(&a, GCK_CONTROL_EXIT, 5, 123, 256, &err), 0, "tell it of an end");
	is_str(heard(&a), "task 5 of type 2, pid 123, status 256", "its end");
	gck_agent_finish(&a, 10000);
	ok(a.control < 0, "the end");
}

/* A process that failed to become the agent may need a moment to end. */
static bool nobody_hears(const struct gck_agent *a)
{
	for (int i = 0; i < 3000; i++) {
		if (gck_agent_tell(a, GCK_CONTROL_TASK, 0, 1, 0, &err))
			return true;
		usleep(20000);
	}
	return false;
}

static void test_start_failure(const char *path, char *env, const char *why, const char *name)
{
	struct gck_agent a;
	pid_t first, other;

	why_not = why;
	is_int(gck_agent_prepare(&a, &err), 0, "the sockets are made");
	first = fork_first(&a, path, env, 2);
	other = fork_other(&a);
	gck_agent_forked(&a);
	is_int(status_of(first), 1, name);
	is_int(status_of(other), 1, "all tasks notice it");
	gck_agent_finish(&a, 50);
}

static void test_failure(void)
{
	static char reason[] = "REPORT=gpuckpt.conf:3: no such key";
	struct gck_agent a;
	pid_t first, other;

	test_start_failure("/nonexistent/agent", ready, "No such file", "no program");
	test_start_failure(stub, reason, "gpuckpt.conf:3: no such key",
			   "an agent that cannot serve");
	test_start_failure(stub, NULL, "ended without a word", "an agent that ends");

	is_int(gck_agent_prepare(&a, &err), 0, "the sockets are made");
	first = fork();
	if (first == 0)
		_exit(1);
	other = fork_other(&a);
	gck_agent_forked(&a);
	status_of(first);
	is_int(status_of(other), 1, "a first task that dies is noticed");
	ok(nobody_hears(&a), "no agent can be told: %s", err.text);
	gck_agent_finish(&a, 0);
}

/* An agent that reads nothing: 2,000 tasks must not block slurmstepd. */
static void test_deaf(void)
{
	struct gck_agent a;
	struct timespec t[2];
	int told = 0;

	is_int(gck_agent_prepare(&a, &err), 0, "the sockets are made");
	clock_gettime(CLOCK_MONOTONIC, &t[0]);
	for (int i = 0; i < 100000; i++)
		told += gck_agent_tell(&a, GCK_CONTROL_TASK, (uint32_t)i, 1, 0, &err) == 0;
	ok(all_of(told > 100, told < 100000, err.code == EAGAIN),
	   "an agent that does not read: %s", err.text);
	if (geteuid() == 0)
		ok(told >= 2000, "root's buffer holds %d tasks", told);
	gck_agent_finish(&a, 50);
	clock_gettime(CLOCK_MONOTONIC, &t[1]);
	ok(t[1].tv_sec - t[0].tv_sec < 10, "slurmstepd does not wait for it");
}

static void test_link(void)
{
	struct gck_agent a;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct ucred cred = { 0 };
	socklen_t n = sizeof cred, length;

	is_int(gck_agent_prepare(&a, &err), 0, "the sockets are made");
	strcpy(addr.sun_path + 1, a.link);
	length = (socklen_t)(sizeof addr.sun_family + 1 + strlen(a.link));
	is_int(connect(fd, (struct sockaddr *)&addr, length), 0, "a rank can connect at once");
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n);
	is_int(cred.uid, geteuid(), "and sees the user's uid");
	close(fd);
	gck_agent_forked(&a);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	is_int(connect(fd, (struct sockaddr *)&addr, length), -1,
	       "without an agent nothing listens");
	close(fd);
	gck_agent_finish(&a, 0);
}

int main(int argc, char *argv[])
{
	const char *slash = strrchr(argv[0], '/');
	char dir[PATH_MAX];

	(void)argc;
	alarm(300);
	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - argv[0]) : 1,
		 slash ? argv[0] : ".");
	if (!realpath(dir, stub))
		return 1;
	strncat(stub, "/stub_agent", sizeof stub - strlen(stub) - 1);
	test_start();
	test_failure();
	test_deaf();
	test_link();
	return tap_done();
}
