/* SPDX-License-Identifier: Apache-2.0
 * Talking with the shim's helper thread: what has to run inside the rank is run by it. */
#include "config.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/target.h"

static size_t packet_size(const struct gck_link_msg *m)
{
	return offsetof(struct gck_link_msg, calls) + m->ncalls * sizeof(m->calls[0]);
}

/* Send m, with a descriptor if fd is not -1. */
static int put(const struct gck_target *t, const struct gck_link_msg *m, int fd,
	       struct gck_error *err)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	struct iovec part = {(void *)(uintptr_t)m, packet_size(m)};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control.room);
	}
	if (sendmsg(t->link, &packet, MSG_NOSIGNAL) < 0)
		return gck_fail(err, errno, "the shim's helper in process %d cannot be reached: %s",
				(int)t->pid, strerror(errno));
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

static int get(const struct gck_target *t, struct gck_link_msg *m, int timeout_ms,
	       struct gck_error *err)
{
	ssize_t n;

	if (!readable(t->link, timeout_ms))
		return gck_fail(err, ETIMEDOUT, "the shim's helper in process %d did not answer "
				"within %d ms", (int)t->pid, timeout_ms);
	n = recv(t->link, m, sizeof(*m), MSG_DONTWAIT);
	if (n <= 0)
		return gck_fail(err, n ? errno : ECONNRESET,
				"the shim's helper in process %d went away: %s", (int)t->pid,
				n ? strerror(errno) : "the link ended");
	if ((size_t)n < offsetof(struct gck_link_msg, calls) ||
	    m->ncalls > GCK_LINK_MAX_CALLS || (size_t)n < packet_size(m))
		return gck_fail(err, EPROTO, "the shim's helper in process %d sent %zd bytes that "
				"are no message", (int)t->pid, n);
	return 0;
}

/* Send m and take the answer, which has to be of this type, into m. Where it does not come the
 * link is ended, and the helper connects again: a late answer would be taken for the next one. */
static int ask(const struct gck_target *t, struct gck_link_msg *m, int fd, uint32_t answer,
	       int timeout_ms, struct gck_error *err)
{
	if (put(t, m, fd, err))
		return -1;
	if (get(t, m, timeout_ms, err) == 0) {
		if (m->type == answer)
			return 0;
		gck_fail(err, EPROTO, "the shim's helper in process %d answered with a message of "
			 "type %u", (int)t->pid, m->type);
	}
	shutdown(t->link, SHUT_RDWR);
	return -1;
}

int gck_helper_calls(const struct gck_target *t, struct gck_link_msg *m, int timeout_ms,
		     struct gck_error *err)
{
	uint32_t n = m->ncalls;

	m->type = GCK_LINK_CALLS;
	m->pid = 0;
	m->unused = 0;
	if (ask(t, m, -1, GCK_LINK_RESULTS, timeout_ms, err))
		return -1;
	if (m->ncalls != n)
		return gck_fail(err, EPROTO, "the shim's helper in process %d ran %u of %u calls",
				(int)t->pid, m->ncalls, n);
	return 0;
}

int gck_helper_clone(const struct gck_target *t, int timeout_ms, pid_t *clone, int *life,
		     struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_CLONE};
	int pair[2];
	int failed;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return gck_fail(err, errno, "no socketpair for the clone: %s", strerror(errno));
	failed = ask(t, &m, pair[1], GCK_LINK_CLONED, timeout_ms, err);
	close(pair[1]);
	if (!failed && m.pid <= 0)
		failed = gck_fail(err, m.pid ? -m.pid : EPROTO,
				  "process %d cannot be forked for its clone: %s", (int)t->pid,
				  strerror(-m.pid));
	if (failed) {
		close(pair[0]);
		return -1;
	}
	*clone = m.pid;
	*life = pair[0];
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

int gck_helper_reap(const struct gck_target *t, pid_t clone, int timeout_ms,
		    struct gck_error *err)
{
	struct gck_link_msg m = {.type = GCK_LINK_REAP, .pid = clone};

	return ask(t, &m, -1, GCK_LINK_REAPED, timeout_ms, err);
}
