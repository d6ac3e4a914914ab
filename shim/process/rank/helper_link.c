/* SPDX-License-Identifier: Apache-2.0
 * Requests to the shim's helper thread, which runs what must run inside the rank. */
#include "config.h"

#include "shim/process/rank/helper_link.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fd_passing.h"

#define CLONE_MS 60000 /* pages may come from swap */

static size_t packet_size(const struct gck_link_msg *m)
{
	return offsetof(struct gck_link_msg, calls) + m->ncalls * sizeof(m->calls[0]);
}

/* The process at the other end of a socket. */
struct peer {
	int fd;
	const char *what;
	pid_t pid;
};

static struct peer helper_of(const struct gck_target *t)
{
	return (struct peer){t->link, "the shim's helper in process", t->pid};
}

/* Send m, with a descriptor if fd is not -1. */
static int put(const struct peer *p, const struct gck_link_msg *m, int fd, struct gck_error *err)
{
	if (gck_fd_send(p->fd, m, packet_size(m), &fd, fd >= 0, 0) < 0)
		return gck_fail(err, errno, "%s %d cannot be reached: %s", p->what, (int)p->pid,
				strerror(errno));
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Wait until fd can be read. */
static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t end = now_ms() + timeout_ms;
	int ready;

	do {
		int64_t left = end - now_ms();

		ready = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/* *passed: the descriptor in the message, or -1; NULL: none is expected. */
static int get(const struct peer *p, struct gck_link_msg *m, int *passed, int timeout_ms,
	       struct gck_error *err)
{
	size_t npassed = passed != NULL;
	ssize_t n;

	if (!readable(p->fd, timeout_ms))
		return gck_fail(err, ETIMEDOUT, "%s %d did not answer within %d ms", p->what,
				(int)p->pid, timeout_ms);
	n = gck_fd_receive(p->fd, m, sizeof(*m), passed, &npassed, MSG_DONTWAIT);
	if (passed && !npassed)
		*passed = -1;
	if (n <= 0)
		return gck_fail(err, n ? errno : ECONNRESET, "%s %d went away: %s", p->what,
				(int)p->pid, n ? strerror(errno) : "the link ended");
	if ((size_t)n < offsetof(struct gck_link_msg, calls) ||
	    m->ncalls > GCK_LINK_MAX_CALLS || (size_t)n < packet_size(m))
		return gck_fail(err, EPROTO, "%s %d sent %zd bytes that are not a message", p->what,
				(int)p->pid, n);
	return 0;
}

/* Send m and receive an answer of this type into m. If it does not come, the link is shut down and
 * the helper connects again: a late answer would be mistaken for the next one. */
static int take_with(struct peer p, struct gck_link_msg *m, uint32_t answer, int *passed,
		     int timeout_ms, struct gck_error *err)
{
	int failed;

	/* skip ASK, which the rank sends again to an agent */
	do
		failed = get(&p, m, passed, timeout_ms, err);
	while (!failed && m->type == GCK_LINK_ASK);
	if (!failed) {
		if (m->type == answer)
			return 0;
		gck_fail(err, EPROTO, "%s %d answered with a message of type %u", p.what,
			 (int)p.pid, m->type);
	}
	if (passed && *passed >= 0)
		close(*passed);
	shutdown(p.fd, SHUT_RDWR);
	return -1;
}

static int take(struct peer p, struct gck_link_msg *m, uint32_t answer, int timeout_ms,
		struct gck_error *err)
{
	return take_with(p, m, answer, NULL, timeout_ms, err);
}

static int ask(struct peer p, struct gck_link_msg *m, int fd, uint32_t answer, int timeout_ms,
	       struct gck_error *err)
{
	return put(&p, m, fd, err) ? -1 : take(p, m, answer, timeout_ms, err);
}

static int put_calls(const struct peer *p, struct gck_link_msg *m, int fd, struct gck_error *err)
{
	m->type = GCK_LINK_CALLS;
	m->pid = 0;
	m->number = 0;
	return put(p, m, fd, err);
}

static int take_results(struct peer p, struct gck_link_msg *m, uint32_t n, int timeout_ms,
			struct gck_error *err)
{
	if (take(p, m, GCK_LINK_RESULTS, timeout_ms, err))
		return -1;
	if (m->ncalls != n)
		return gck_fail(err, EPROTO, "%s %d ran %u of %u calls", p.what, (int)p.pid,
				m->ncalls, n);
	return 0;
}

int64_t *gck_helper_call(struct gck_link_msg *m, long nr, uint64_t a, uint64_t b, uint64_t c,
			 uint64_t d)
{
	struct gck_link_call *call = &m->calls[m->ncalls++];

	*call = (struct gck_link_call){.nr = nr, .args = {a, b, c, d}};
	return &call->result;
}

int gck_helper_calls(const struct gck_target *t, struct gck_link_msg *m, int timeout_ms,
		     struct gck_error *err)
{
	struct peer p = helper_of(t);
	uint32_t n = m->ncalls;

	return put_calls(&p, m, -1, err) ? -1 : take_results(p, m, n, timeout_ms, err);
}

int gck_helper_userfaultfd(const struct gck_target *t, int timeout_ms, int *uffd,
			   struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_TRACK_DIRTY};
	struct peer p = helper_of(t);
	int passed = -1;

	if (put(&p, &m, -1, err) || take_with(p, &m, GCK_LINK_DIRTY_FD, &passed, timeout_ms, err))
		return -1;
	if (m.pid < 0 || passed < 0)
		return gck_fail(err, m.pid < 0 ? -m.pid : EPROTO,
				"process %d has no userfaultfd: %s", (int)t->pid,
				strerror(m.pid < 0 ? -m.pid : EPROTO));
	*uffd = passed;
	return 0;
}

int gck_helper_queue(const struct gck_target *t, int memory, int timeout_ms, struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_QUEUE};

	if (ask(helper_of(t), &m, memory, GCK_LINK_RESULTS, timeout_ms, err))
		return -1;
	if (m.ncalls != 1)
		return gck_fail(err, EPROTO, "the shim's helper in process %d sent %u results of "
				"one call", (int)t->pid, m.ncalls);
	if (m.calls[0].result < 0)
		return gck_fail(err, (int)-m.calls[0].result, "process %d cannot look into its "
				"message queue: %s", (int)t->pid,
				strerror((int)-m.calls[0].result));
	return 0;
}

int gck_helper_ask_clone(const struct gck_target *t, const struct gck_ranges *without,
			 const struct gck_link_msg *then, int *life,
			 struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_CLONE};
	struct peer p = helper_of(t);
	int pair[2];
	int failed;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return gck_fail(err, errno, "no socketpair for the clone: %s", strerror(errno));
	for (size_t i = 0; i < without->n && i < GCK_LINK_MAX_CALLS - then->ncalls; i++)
		gck_helper_call(&m, SYS_madvise, without->v[i].start,
				without->v[i].end - without->v[i].start, MADV_DONTFORK, 0);
	m.number = m.ncalls;
	for (uint32_t i = 0; i < then->ncalls; i++)
		m.calls[m.ncalls++] = then->calls[i];
	failed = put(&p, &m, pair[1], err);
	close(pair[1]);
	if (failed)
		close(pair[0]);
	else
		*life = pair[0];
	return failed;
}

int gck_helper_cloned(const struct gck_target *t, int timeout_ms, pid_t *clone,
		      struct gck_error *err)
{
	struct gck_link_msg m;

	if (take(helper_of(t), &m, GCK_LINK_CLONED, timeout_ms, err))
		return -1;
	if (m.pid <= 0)
		return gck_fail(err, m.pid ? -m.pid : EPROTO,
				"process %d cannot be forked for its clone: %s", (int)t->pid,
				strerror(m.pid ? -m.pid : EPROTO));
	*clone = m.pid;
	return 0;
}

int gck_clone_ready(int life, int timeout_ms, struct gck_error *err)
{
	char word = 0;

	if (!readable(life, timeout_ms))
		return gck_fail(err, ETIMEDOUT, "the clone was not ready within %d ms", timeout_ms);
	if (recv(life, &word, 1, MSG_DONTWAIT) != 1 || word != GCK_LINK_FROZEN)
		return gck_fail(err, ECHILD, "the clone ended before it was ready: out of memory?");
	return 0;
}

static struct peer clone_of(pid_t clone, int life)
{
	return (struct peer){life, "the clone, process", clone};
}

int gck_clone_ask(pid_t clone, int life, struct gck_link_msg *m, int fd, struct gck_error *err)
{
	struct peer p = clone_of(clone, life);

	return put_calls(&p, m, fd, err);
}

int gck_clone_answer(pid_t clone, int life, struct gck_link_msg *m, uint32_t ncalls,
		     struct gck_error *err)
{
	return take_results(clone_of(clone, life), m, ncalls, CLONE_MS, err);
}

int gck_helper_reap(const struct gck_target *t, pid_t clone, int timeout_ms,
		    struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_REAP, .pid = clone};

	return ask(helper_of(t), &m, -1, GCK_LINK_REAPED, timeout_ms, err);
}
