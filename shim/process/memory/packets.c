/* SPDX-License-Identifier: Apache-2.0
 * Packets that wait in a socketpair or pipe. */
#include "config.h"

#include "shim/process/memory/packets.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PEEK (MSG_PEEK | MSG_DONTWAIT)

void gck_packets_free(struct gck_packets *p)
{
	free(p->data);
	for (size_t i = 0; i < p->n && p->v; i++) {
		free(p->v[i].from);
		free(p->v[i].rights);
	}
	free(p->v);
	for (size_t i = 0; i < p->nrights; i++)
		if (p->rights[i] >= 0)
			close(p->rights[i]);
	free(p->rights);
	*p = (struct gck_packets){0};
}

/* Reserve space for another packet of up to size bytes. */
static char *reserve(struct gck_packets *p, size_t size, struct gck_error *err)
{
	char *data = realloc(p->data, p->size + size + 1);

	if (!data) {
		gck_fail(err, ENOMEM, "out of memory for %zu bytes of packets", p->size + size);
		return NULL;
	}
	p->data = data;
	return data + p->size;
}

static int add(struct gck_packets *p, size_t size, struct gck_error *err)
{
	struct gck_packet *x = gck_grow(&p->v, &p->n, sizeof *x, err);

	if (!x)
		return -1;
	x->size = size;
	p->size += size;
	return 0;
}

/* ---- sockets ------------------------------------------------------------------------------- */

/* Whether a 0 means the end: the other end has closed or shut down, and nothing is left. Only a
 * SOCK_SEQPACKET reports an end so, and the bytes of all its packets. */
static bool is_end(const struct gck_packets *p, int socket, int type)
{
	struct pollfd poll_for = {.fd = socket, .events = POLLRDHUP};
	int waiting = 0;

	return type == SOCK_SEQPACKET && poll(&poll_for, 1, 0) == 1 &&
	       !ioctl(socket, SIOCINQ, &waiting) && p->size >= (size_t)waiting;
}

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

/* What comes with a message: descriptors, which are ours then. Others are passed over. */
union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(GCK_RIGHTS_MAX * sizeof(int)) + 256];
};

/* The descriptors of a message that was peeked at. */
struct rights {
	int fds[GCK_RIGHTS_MAX];
	size_t n;
};

static void take_rights(struct msghdr *m, struct rights *got)
{
	got->n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int pidfd;

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_PIDFD) {
			memcpy(&pidfd, CMSG_DATA(c), sizeof pidfd);
			close(pidfd);
		} else if (c->cmsg_type == SCM_RIGHTS) {
			got->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(got->fds, CMSG_DATA(c), got->n * sizeof(int));
		}
	}
}

static void drop_rights(struct rights *got)
{
	while (got->n)
		close(got->fds[--got->n]);
}

/* Look at a message and the descriptors that come with it. -1 with errno: EMFILE if they are not
 * all here. */
static ssize_t peek(int socket, struct msghdr *m, int flags, struct rights *got)
{
	union control control;
	ssize_t size;

	m->msg_control = &control;
	m->msg_controllen = sizeof control;
	got->n = 0;
	size = recvmsg(socket, m, PEEK | MSG_CMSG_CLOEXEC | flags);
	if (size < 0)
		return size;
	take_rights(m, got);
	if (!(m->msg_flags & MSG_CTRUNC))
		return size;
	drop_rights(got);
	errno = EMFILE;
	return -1;
}

/* The size of the next packet, the socket from which it came, and its descriptors. */
static ssize_t look(int socket, struct sockaddr_un *from, socklen_t *n, struct rights *got)
{
	struct msghdr m = {.msg_name = from, .msg_namelen = sizeof(*from)};
	ssize_t size = peek(socket, &m, MSG_TRUNC, got);

	*n = m.msg_namelen < sizeof(*from) ? m.msg_namelen : sizeof(*from);
	return size;
}

/* They are p's from now on, also if this fails. */
static int keep_rights(struct gck_packets *p, struct rights *got, struct gck_error *err)
{
	struct gck_packet *x = &p->v[p->n - 1];
	int *more;

	if (!got->n)
		return 0;
	more = reallocarray(p->rights, p->nrights + got->n, sizeof *more);
	if (more)
		p->rights = more;
	x->rights = calloc(got->n, sizeof *x->rights);
	if (!more || !x->rights) {
		drop_rights(got);
		return gck_fail(err, ENOMEM, "out of memory for packets");
	}
	x->nrights = got->n;
	memcpy(p->rights + p->nrights, got->fds, got->n * sizeof *more);
	p->nrights += got->n;
	return 0;
}

static int keep_sender(struct gck_packet *x, const struct sockaddr_un *from, socklen_t n,
		       struct gck_error *err)
{
	const size_t head = offsetof(struct sockaddr_un, sun_path);

	if (n <= head + 1)
		return 0;
	x->from_size = from->sun_path[0] ? strnlen(from->sun_path, n - head) : n - head;
	x->from = malloc(x->from_size);
	if (!x->from)
		return gck_fail(err, ENOMEM, "out of memory for packets");
	memcpy(x->from, from->sun_path, x->from_size);
	return 0;
}

/* Read each packet from the peek offset on, which its reading advances. Its size comes first: a
 * shorter buffer would cut it in two. */
static int walk(struct gck_packets *p, int socket, int type, struct gck_error *err)
{
	for (;;) {
		struct sockaddr_un from;
		struct rights got;
		socklen_t named;
		ssize_t n = look(socket, &from, &named, &got);
		char *to = n < 0 ? NULL : reserve(p, (size_t)n, err);

		if (n < 0)
			return errno == EAGAIN ? 0
					       : gck_fail(err, errno, "cannot look at the packets "
							  "in a unix socket: %s", strerror(errno));
		if (n == 0 && !got.n && is_end(p, socket, type))
			return 0;
		if (!to || (n && recv(socket, to, (size_t)n, PEEK) != n)) {
			drop_rights(&got);
			return to ? gck_fail(err, EAGAIN, "the packets in a unix socket changed; "
					     "try again") : -1;
		}
		if (add(p, (size_t)n, err)) {
			drop_rights(&got);
			return -1;
		}
		if (keep_rights(p, &got, err) ||
		    (p->senders && keep_sender(&p->v[p->n - 1], &from, named, err)))
			return -1;
	}
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Read from this place of a stream, up to the parts' sizes. A message with descriptors ends what is
 * read. */
static ssize_t peek_parts(int socket, size_t at, struct iovec parts[2], struct rights *got)
{
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
	int offset = (int)at;

	got->n = 0;
	if (setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset))
		return -1;
	return peek(socket, &m, 0, got);
}

static ssize_t peek_stream(int socket, size_t at, char *to, size_t n, struct rights *got)
{
	return peek_parts(socket, at, (struct iovec[2]){{to, n}}, got);
}

/* Where the message begins that ends these n bytes. The kernel copies one message after the other,
 * and of one that has no place to its end, nothing: here it lacks a byte. -1 with errno. */
static ssize_t begin_of_message(int socket, size_t at, char *to, size_t n)
{
	struct iovec parts[2] = {{to, n - 1}, {NULL, 1}};
	struct rights got;
	ssize_t before = n > 1 ? peek_parts(socket, at, parts, &got) : 0;

	if (n > 1)
		drop_rights(&got);
	return before < 0 && errno == EFAULT ? 0 : before;
}

/* Add the bytes from the place p->size on: two packets, if what has no descriptors is before. */
static int add_stream(struct gck_packets *p, int socket, size_t waiting, struct gck_error *err)
{
	char *to = reserve(p, waiting, err);
	struct rights got;
	ssize_t n = to ? peek_stream(socket, p->size, to, waiting, &got) : -1, before = 0;

	if (n > 0 && got.n)
		before = begin_of_message(socket, p->size, to, (size_t)n);
	if (n <= 0 || before < 0) {
		if (n > 0)
			drop_rights(&got);
		return to ? gck_fail(err, EAGAIN, "the bytes in a unix socket cannot be read; try "
				     "again") : -1;
	}
	if ((before && add(p, (size_t)before, err)) || add(p, (size_t)(n - before), err)) {
		drop_rights(&got);
		return -1;
	}
	return keep_rights(p, &got, err);
}

static int walk_stream(struct gck_packets *p, int socket, struct gck_error *err)
{
	int waiting = 0;

	if (ioctl(socket, FIONREAD, &waiting))
		return gck_fail(err, errno, "cannot look into a unix socket: %s", strerror(errno));
	while (p->size < (size_t)waiting)
		if (add_stream(p, socket, (size_t)waiting - p->size, err))
			return -1;
	return 0;
}

/* ---- packets of a socket ------------------------------------------------------------------- */

/* A memory file that has the packets' bytes. */
static int data_file(const struct gck_packets *p)
{
	int fd = memfd_create("gpuckpt", MFD_CLOEXEC);

	if (fd >= 0 && pwrite(fd, p->data, p->size, 0) != (ssize_t)p->size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Whether the same packets, in a pair of ours, take the same memory. An empty packet that an
 * earlier checkpoint has seen is hidden: with a peek offset the kernel passes it over. */
static bool is_complete(const struct gck_packets *p, int type, int from)
{
	int pair[2] = {-1, -1}, theirs = 0, ours = 0, buffer = 0, data = data_file(p);
	socklen_t n = sizeof buffer;
	bool same;

	same = data >= 0 && !socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) &&
	       !getsockopt(from, SOL_SOCKET, SO_SNDBUF, &buffer, &n);
	buffer /= 2; /* the kernel doubles it */
	same = same && !setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) &&
	       !gck_packets_put(p->v, p->n, data, pair[0], NULL) &&
	       !ioctl(from, SIOCOUTQ, &theirs) && !ioctl(pair[0], SIOCOUTQ, &ours) &&
	       ours == theirs;
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
	if (data >= 0)
		close(data);
	return same;
}

int gck_peek_offset(int socket, int offset, int *before, struct gck_error *err)
{
	socklen_t n = sizeof *before;

	if (getsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, before, &n) ||
	    setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset))
		return gck_fail(err, errno, "the peek offset of a socketpair cannot be set: %s",
				strerror(errno));
	return 0;
}

int gck_packets_peek(struct gck_packets *p, int socket, int type, int from, struct gck_error *err)
{
	int before = -1, set, result;

	if (gck_peek_offset(socket, 0, &before, err))
		return -1;
	result = type == SOCK_STREAM ? walk_stream(p, socket, err) : walk(p, socket, type, err);
	if (gck_peek_offset(socket, before, &set, result ? NULL : err))
		result = -1;
	if (!result && from >= 0 && type != SOCK_STREAM && !is_complete(p, type, from))
		result = gck_fail(err, EAGAIN, "an empty packet waits in a socketpair and cannot "
				  "be seen again; try again when it is received");
	return result;
}

/* ---- pipes --------------------------------------------------------------------------------- */

int gck_packets_read(struct gck_packets *p, int pipe, struct gck_error *err)
{
	int waiting = 0;

	while (!ioctl(pipe, FIONREAD, &waiting) && waiting) {
		char *to = reserve(p, (size_t)waiting, err);
		ssize_t n = to ? read(pipe, to, (size_t)waiting) : -1;

		if (n <= 0 || add(p, (size_t)n, err))
			return to ? gck_fail(err, errno, "cannot read the copy of a pipe: %s",
					     strerror(errno)) : -1;
	}
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* -1 with errno: ENOTSOCK also for a pipe. */
static ssize_t send_with(int into, const char *bytes, size_t size, const int *rights, size_t n)
{
	union control control = {.head = {CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec part = {(char *)bytes, size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	if (n > GCK_RIGHTS_MAX)
		return errno = EINVAL, -1;
	if (n) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), rights, n * sizeof(int));
	}
	return sendmsg(into, &m, MSG_NOSIGNAL);
}

int gck_packets_put(const struct gck_packet *v, size_t n, int data, int into, const int *rights)
{
	off_t at = 0;

	for (size_t i = 0; i < n; i++) {
		char *packet = malloc(v[i].size + 1);
		ssize_t put = -1;

		if (packet && pread(data, packet, v[i].size, at) == (ssize_t)v[i].size)
			put = send_with(into, packet, v[i].size, rights,
					rights ? v[i].nrights : 0);
		if (put < 0 && errno == ENOTSOCK)
			put = write(into, packet, v[i].size);
		free(packet);
		if (put != (ssize_t)v[i].size)
			return -1;
		at += (off_t)v[i].size;
		rights = rights ? rights + v[i].nrights : NULL;
	}
	return 0;
}
