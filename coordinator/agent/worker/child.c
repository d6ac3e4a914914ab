/* SPDX-License-Identifier: Apache-2.0
 * Processes that the agent forks for work that blocks. */
#include "config.h"

#include "coordinator/agent/worker/child.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/worker/beside.h"
#include "coordinator/agent/worker/proxy.h"

#define OOM_SCORE 900 /* of 1000: the kernel kills these processes before the program if memory
		       * runs out */

struct child {
	struct ev_loop *loop;
	const struct child_ops *ops;
	pid_t beside;
	void *data;
	pid_t pid;
	int fd;
	struct proxy_line *urls; /* for URLs and keys; NULL: its store needs none */
	bool forgotten;
	ev_io io;
	ev_child reaped;
};

/* The descriptors that a new process keeps beside 0 to 2: its ends of sockets, the second for URLs
 * and keys, and those it was given. -1: none. */
struct kept {
	int ends[2];
	const int *given;
	size_t n;
};

static int kept_at(const struct kept *k, size_t i)
{
	return i < 2 ? k->ends[i] : k->given[i - 2];
}

static void close_all_but(const struct kept *k)
{
	int from = 3;

	for (;;) {
		int next = INT_MAX;

		for (size_t i = 0; i < 2 + k->n; i++)
			if (kept_at(k, i) >= from && kept_at(k, i) < next)
				next = kept_at(k, i);
		if (next > from)
			close_range((unsigned)from, next == INT_MAX ? ~0u : (unsigned)next - 1, 0);
		if (next == INT_MAX)
			return;
		from = next + 1;
	}
}

/* The agent's own score, which its children inherit. It is opened before the first fork: once
 * the agent keeps a key (proxy.c) it is not dumpable, and its files in /proc belong to root. */
static int own_score(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	return fd;
}

static void set_score(int fd, int score)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d", score);

	if (pwrite(fd, text, (size_t)n, 0) < 0)
		(void)0; /* the administrator has raised the lower bound: no harm */
}

/* Forks a process that the kernel kills before the program and the agent. The agent has the high
 * score only during the fork. */
static pid_t fork_victim(void)
{
	char own[16] = "";
	int fd = own_score();
	bool raise = fd >= 0 && pread(fd, own, sizeof own - 1, 0) > 0 && atoi(own) < OOM_SCORE;
	pid_t pid;

	if (raise)
		set_score(fd, OOM_SCORE);
	pid = fork();
	if (raise && pid != 0)
		set_score(fd, atoi(own));
	return pid;
}

/* The event loop's signal handlers write into a pipe shared with the agent, so they are reset
 * before a signal can come. */
static void default_signals(void)
{
	sigset_t none;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_child(const struct child *c, void *arg, pid_t agent, const struct kept *k)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent)
		_exit(1);
	default_signals();
	prctl(PR_SET_NAME, "gpuckpt-worker");
	close_all_but(k);
	if (c->beside)
		beside_enter(c->beside);
	if (k->ends[1] >= 0)
		proxy_use(k->ends[1]);
	_exit(c->ops->run(k->ends[0], arg));
}

static void take_packets(struct child *c)
{
	struct gck_error err;
	json_t *body;

	while ((body = packet_recv(c->fd, 0, &err))) {
		if (!c->forgotten)
			c->ops->message(c->data, body);
		json_decref(body);
	}
	if (err.code != ETIMEDOUT)
		ev_io_stop(c->loop, &c->io);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	take_packets(io->data);
}

static void on_reaped(struct ev_loop *loop, ev_child *w, int events)
{
	struct child *c = w->data;

	(void)events;
	take_packets(c);
	ev_child_stop(loop, w);
	ev_io_stop(loop, &c->io);
	close(c->fd);
	proxy_close(c->urls);
	if (!c->forgotten)
		c->ops->end(c->data, w->rstatus);
	free(c);
}

static void watch(struct child *c)
{
	ev_io_init(&c->io, on_readable, c->fd, EV_READ);
	c->io.data = c;
	ev_io_start(c->loop, &c->io);
	ev_child_init(&c->reaped, on_reaped, c->pid, 0);
	c->reaped.data = c;
	ev_child_start(c->loop, &c->reaped);
}

static pid_t fork_quietly(const struct child *c, void *arg, const struct kept *k)
{
	sigset_t all, before;
	pid_t agent = getpid(), pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork_victim();
	if (pid == 0)
		become_child(c, arg, agent, k);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Makes two sockets. The agent's ends do not block. */
static int make_sockets(int own[2], int ends[2], struct gck_error *err)
{
	size_t n = proxy_serves() ? 2 : 1;

	for (size_t i = 0; i < n; i++) {
		int sv[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
			return gck_fail(err, errno, "cannot make a worker process: %s",
					strerror(errno));
		own[i] = sv[0];
		ends[i] = sv[1];
		fcntl(sv[0], F_SETFL, O_NONBLOCK);
	}
	return 0;
}

static void close_ends(const int *fds)
{
	for (size_t i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int launch(struct child *c, void *arg, const int *keep, size_t nkeep, struct gck_error *err)
{
	struct kept k = { .ends = { -1, -1 }, .given = keep, .n = nkeep };
	int own[2] = { -1, -1 }, rc = make_sockets(own, k.ends, err);

	if (rc == 0) {
		c->pid = fork_quietly(c, arg, &k);
		if (c->pid < 0)
			rc = gck_fail(err, errno, "cannot fork a worker process: %s",
				      strerror(errno));
	}
	close_ends(k.ends);
	if (rc < 0) {
		close_ends(own);
		return -1;
	}
	c->fd = own[0];
	c->urls = own[1] < 0 ? NULL : proxy_open(own[1]);
	return 0;
}

struct child *child_start(struct ev_loop *loop, const struct child_ops *ops, void *arg,
			  pid_t beside, const int *keep, size_t nkeep, void *data,
			  struct gck_error *err)
{
	struct child *c = calloc(1, sizeof *c);

	if (!c) {
		gck_fail(err, ENOMEM, "cannot make a worker process: out of memory");
		return NULL;
	}
	c->loop = loop;
	c->ops = ops;
	c->beside = beside;
	c->data = data;
	if (launch(c, arg, keep, nkeep, err) < 0) {
		free(c);
		return NULL;
	}
	watch(c);
	return c;
}

static void end_if_hung(struct child *c, int sent, const struct gck_error *err)
{
	if (sent < 0 && err->code == EAGAIN)
		child_kill(c); /* it has not read for so long that it hangs */
}

void child_tell(struct child *c, json_t *body)
{
	struct gck_error err;

	end_if_hung(c, packet_send(c->fd, body, &err), &err);
}

void child_give(struct child *c, json_t *body, int given)
{
	struct gck_error err;

	end_if_hung(c, packet_give(c->fd, body, given, &err), &err);
}

void child_remind(struct child *c, json_t *body)
{
	int unread = 0;

	if (ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread)
		json_decref(body);
	else
		packet_send(c->fd, body, NULL);
}

void child_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
}

void child_forget(struct child *c)
{
	c->forgotten = true;
	child_kill(c);
}

const char *child_status_text(int status, char *buf, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(buf, size, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(buf, size, "exit status %d", WEXITSTATUS(status));
	return buf;
}
