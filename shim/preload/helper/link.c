/* SPDX-License-Identifier: Apache-2.0
 * The link's socket: connecting, sending one packet, receiving one packet. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

#define HEADER offsetof(struct gck_link_msg, hello)

static uint64_t link_dev, link_ino;

/* Move fd to a number that the program does not use: from 1000 up, or lower if the limit is small.
 * All of a held process waits for a helper that was summoned, and a table of more than 64
 * descriptors would cost it some 15 ms: the kernel waits for its other threads. */
static int move_high(int fd)
{
	int first = gck_state.features & GCK_SHIM_SUMMONED ? 63 : 1000, high = -EINVAL;

	for (int min = first; min > 2 && high < 0; min /= 2)
		high = gck_raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, min);
	if (high < 0)
		return fd;
	gck_raw(SYS_close, fd);
	return high;
}

static int connect_to(int fd, const char *name)
{
	struct sockaddr_un address;
	unsigned n = 0;
	long r;

	address.sun_family = AF_UNIX;
	address.sun_path[0] = '\0';
	while (name[n] && n + 1 < sizeof address.sun_path) {
		address.sun_path[n + 1] = name[n];
		n++;
	}
	do
		r = gck_raw(SYS_connect, fd, &address,
			    offsetof(struct sockaddr_un, sun_path) + 1 + n);
	while (r == -EINTR);
	return r;
}

/* Check the peer's uid: anybody could listen under a name whose owner is gone. */
static int check_peer(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	long r = gck_raw(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);

	if (r < 0)
		return r;
	return peer.uid == (uid_t)gck_raw(SYS_getuid) ? 0 : -EPERM;
}

static int say_hello(int fd, bool reconnect)
{
	struct gck_link_msg m;

	m.hello.version = GCK_LINK_VERSION;
	m.hello.reconnect = reconnect;
	m.hello.state = (uint64_t)&gck_state;
	return gck_link_send(fd, &m, GCK_LINK_HELLO, gck_state.vpid);
}

static bool identity(int fd, uint64_t *dev, uint64_t *ino)
{
	struct stat st;

	if (gck_raw(SYS_fstat, fd, &st) < 0)
		return false;
	*dev = st.st_dev;
	*ino = st.st_ino;
	return true;
}

int gck_link_socket(void)
{
	int fd = gck_raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	fd = move_high(fd);
	if (!identity(fd, &link_dev, &link_ino))
		return -EBADF;
	return fd;
}

int gck_link_connect(int fd, bool reconnect)
{
	int r = connect_to(fd, gck_state.link);

	if (r == 0 && (r = check_peer(fd)) == 0)
		r = say_hello(fd, reconnect);
	return r;
}

bool gck_link_is_ours(int fd)
{
	uint64_t dev, ino;

	return identity(fd, &dev, &ino) && dev == link_dev && ino == link_ino;
}

GCK_EACH void gck_link_leave(void)
{
	if (gck_state.link_fd >= 0 && gck_link_is_ours(gck_state.link_fd))
		gck_raw(SYS_close, gck_state.link_fd);
	if (gck_state.link_fd >= 0 || gck_state.helper_tid) {
		gck_state.link_fd = -1;
		gck_state.helper_tid = 0;
	}
	if (gck_state.linked)
		gck_state.linked = 0;
	gck_tracer_allow(gck_state.tracer);
}

/* Once a second, also while messages come more often than that (leases do, where SlurmdTimeout is
 * short). The clock may be another node's after a restart. */
static bool is_time_to_look(void)
{
	static int64_t looked_ms;
	struct timespec t;
	int64_t now_ms;

	gck_raw(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	if (now_ms >= looked_ms && now_ms < looked_ms + 1000)
		return false;
	looked_ms = now_ms;
	return true;
}

/* Wait in slices: a thread that sleeps in a socket does not notice that the program closed its fd,
 * or that all other threads have ended. */
static int wait_readable(int fd)
{
	struct timespec slice;
	struct pollfd p;
	long r;

	for (;;) {
		if (!gck_link_is_ours(fd))
			return -EBADF;
		p.fd = fd;
		p.events = POLLIN;
		slice.tv_sec = 1;
		slice.tv_nsec = 0;
		r = gck_raw(SYS_ppoll, &p, 1, &slice, 0, 0);
		if (r < 0 && r != -EINTR)
			return r;
		if (is_time_to_look()) {
			if (gck_helper_must_end())
				return -ESHUTDOWN;
			gck_ask_again();
		}
		if (r > 0)
			return gck_link_is_ours(fd) ? 0 : -EBADF;
	}
}

static int passed_fd(struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	return *(int *)(void *)CMSG_DATA(c);
}

static bool is_whole(const struct gck_link_msg *m, long n, int flags)
{
	if (flags & (MSG_TRUNC | MSG_CTRUNC) || n < (long)HEADER)
		return false;
	if (m->type == GCK_LINK_OUTCOME)
		return n == (long)(HEADER + sizeof m->outcome);
	return (m->type != GCK_LINK_CALLS && m->type != GCK_LINK_CLONE) ||
	       (m->ncalls <= GCK_LINK_MAX_CALLS &&
		n == (long)(HEADER + m->ncalls * sizeof m->calls[0]));
}

int gck_link_receive(int fd, struct gck_link_msg *m, int *passed)
{
	int r = wait_readable(fd);

	return r < 0 ? r : gck_link_take(fd, m, passed, MSG_DONTWAIT);
}

int gck_link_take(int fd, struct gck_link_msg *m, int *passed, int flags)
{
	union {
		struct cmsghdr align;
		char buffer[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v;
	struct msghdr h;
	long n;

	v.iov_base = m;
	v.iov_len = sizeof *m;
	h.msg_name = NULL;
	h.msg_namelen = 0;
	h.msg_iov = &v;
	h.msg_iovlen = 1;
	h.msg_control = passed ? &control : NULL;
	h.msg_controllen = passed ? sizeof control : 0;
	n = gck_raw(SYS_recvmsg, fd, &h, MSG_CMSG_CLOEXEC | flags);
	if (n <= 0)
		return n;
	if (passed)
		*passed = passed_fd(&h);
	if (is_whole(m, n, h.msg_flags))
		return 1;
	if (passed && *passed >= 0)
		gck_raw(SYS_close, *passed);
	return -EPROTO;
}

/* Send n bytes of m, and a descriptor if give is one. */
static int put(int fd, const struct gck_link_msg *m, unsigned long n, int give)
{
	union {
		struct cmsghdr head;
		char buffer[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v;
	struct msghdr h;
	long r;

	v.iov_base = (void *)(uintptr_t)m;
	v.iov_len = n;
	h.msg_name = NULL;
	h.msg_namelen = 0;
	h.msg_iov = &v;
	h.msg_iovlen = 1;
	h.msg_control = give >= 0 ? &control : NULL;
	h.msg_controllen = give >= 0 ? sizeof control : 0;
	h.msg_flags = 0;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	*(int *)(void *)CMSG_DATA(&control.head) = give;
	do
		r = gck_raw(SYS_sendmsg, fd, &h, MSG_NOSIGNAL);
	while (r == -EINTR);
	return r < 0 ? r : 0;
}

int gck_link_give(int fd, struct gck_link_msg *m, enum gck_link_type type, int32_t number, int give)
{
	m->type = type;
	m->pid = number;
	m->ncalls = 0;
	m->number = 0;
	return put(fd, m, HEADER, give);
}

int gck_link_send(int fd, struct gck_link_msg *m, enum gck_link_type type, int32_t number)
{
	unsigned long size = HEADER;

	if (type != GCK_LINK_RESULTS)
		m->ncalls = 0;
	if (type == GCK_LINK_HELLO)
		size += sizeof m->hello;
	else if (type == GCK_LINK_ASK)
		size += sizeof m->ask;
	else if (type == GCK_LINK_RESULTS)
		size += m->ncalls * sizeof m->calls[0];
	m->type = type;
	m->pid = number;
	m->number = type == GCK_LINK_HELLO ? GCK_LINK_TAKES_LEASE : 0;
	return put(fd, m, size, -1);
}
