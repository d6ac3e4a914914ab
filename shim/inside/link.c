/* SPDX-License-Identifier: Apache-2.0
 * The link of a stand-in's thread to the agent, on the stand-in's side. */
#define _GNU_SOURCE
#include "shim/inside/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/fd_passing.h"
#include "shim/inside/descriptor.h"

#define MESSAGE_MAX (1u << 30)
#define PIECE_MS 10000      /* between pieces of one message */
#define SEND_MS 2000        /* an agent that receives nothing for this long is taken for dead */
#define HEAD offsetof(struct gck_thread_msg, data)

/* Limits the time to connect and send, so that an agent that hangs does not block a rank. */
static int limit(int fd)
{
	struct timeval most = {SEND_MS / 1000, SEND_MS % 1000 * 1000};

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

/* Checks that the agent is of the rank's own user; no other may read its words or stop it. */
static int check_listener(int fd, const char *name, struct gck_error *err)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
		return gck_fail(err, errno, "@%s: %s", name, strerror(errno));
	if (peer.uid != geteuid())
		return gck_fail(err, EPERM, "@%s belongs to user %u", name, peer.uid);
	return 0;
}

int gck_inside_link_connect(struct gck_inside_link *l, const char *name, struct gck_error *err)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	int fd;

	if (!n || n >= sizeof to.sun_path)
		return gck_fail(err, EINVAL, "\"%s\" is no socket's name", name);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return gck_fail(err, errno, "no socket: %s", strerror(errno));
	fd = gck_inside_move_away(fd);
	memcpy(to.sun_path + 1, name, n);
	if (limit(fd) ||
	    connect(fd, (struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))) {
		gck_fail(err, errno, "no agent answers at @%s: %s", name, strerror(errno));
		close(fd);
		return -1;
	}
	if (check_listener(fd, name, err)) {
		close(fd);
		return -1;
	}
	*l = (struct gck_inside_link){.fd = fd, .cookie = gck_inside_cookie(fd)};
	return 0;
}

bool gck_inside_link_is_ours(const struct gck_inside_link *l)
{
	return l->fd >= 0 && gck_inside_cookie(l->fd) == l->cookie;
}

void gck_inside_link_close(struct gck_inside_link *l)
{
	if (gck_inside_link_is_ours(l))
		close(l->fd);
	l->fd = -1;
}

void gck_inside_link_wake(const struct gck_inside_link *l)
{
	if (gck_inside_link_is_ours(l))
		shutdown(l->fd, SHUT_RD);
}

static int send_piece(int fd, const struct gck_thread_msg *head, const void *data, size_t size)
{
	struct iovec v[2] = {{(void *)(uintptr_t)head, HEAD}, {(void *)(uintptr_t)data, size}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = size ? 2 : 1};
	ssize_t n;

	do
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

int gck_inside_link_send(const struct gck_inside_link *l, const struct gck_thread_msg *m,
			 const void *data, size_t size)
{
	struct gck_thread_msg head;
	size_t at = 0;

	if (size > MESSAGE_MAX || !gck_inside_link_is_ours(l))
		return -1;
	memcpy(&head, m, HEAD);
	head.total = (uint32_t)size;
	do {
		size_t n = size - at < GCK_THREAD_MSG_DATA ? size - at : GCK_THREAD_MSG_DATA;

		head.offset = (uint32_t)at;
		if (send_piece(l->fd, &head, (const char *)data + at, n)) {
			shutdown(l->fd, SHUT_RDWR); /* ends the link after a part of a message */
			return -1;
		}
		at += n;
	} while (at < size);
	return 0;
}

/* Receives a packet, and descriptors if `to` is given: only the first piece of a message has
 * them. */
static ssize_t receive_packet(int fd, struct gck_thread_msg *m, struct gck_inside_message *to)
{
	if (!to)
		return recv(fd, m, sizeof *m, MSG_DONTWAIT);
	to->nfds = GCK_INSIDE_FDS;
	return gck_fd_receive(fd, m, sizeof *m, to->fds, &to->nfds, MSG_DONTWAIT);
}

/* Returns 1, 0 after ms, or -1. After the wait the descriptor may be another file: the process may
 * have been restored in the meantime. */
static int receive_piece(const struct gck_inside_link *l, struct gck_thread_msg *m, int ms,
			 size_t *n, struct gck_inside_message *to)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	ssize_t got;
	int rc = poll(&p, 1, ms);

	if (rc < 0 && errno == EINTR)
		return 0;
	if (rc <= 0)
		return rc;
	if (!gck_inside_link_is_ours(l))
		return -1;
	got = receive_packet(l->fd, m, to);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < (ssize_t)HEAD)
		return -1;
	*n = (size_t)got - HEAD;
	return m->offset <= m->total && *n <= m->total - m->offset ? 1 : -1;
}

static int receive_rest(const struct gck_inside_link *l, struct gck_inside_message *m, size_t have)
{
	while (have < m->head.total) {
		struct gck_thread_msg piece;
		size_t n;

		if (receive_piece(l, &piece, PIECE_MS, &n, NULL) <= 0 ||
		    piece.type != m->head.type || piece.total != m->head.total ||
		    piece.offset != have || !n)
			return -1;
		memcpy((char *)m->data + have, piece.data, n);
		have += n;
	}
	return 1;
}

int gck_inside_link_receive(const struct gck_inside_link *l, struct gck_inside_message *m, int ms)
{
	size_t n;
	int rc;

	m->data = NULL;
	m->nfds = 0;
	rc = receive_piece(l, &m->head, ms, &n, m);
	if (rc > 0 && !m->head.offset && m->head.total <= MESSAGE_MAX)
		m->data = calloc(1, m->head.total + sizeof(unsigned long));
	if (m->data) {
		memcpy(m->data, m->head.data, n);
		rc = receive_rest(l, m, n);
	} else if (rc > 0) {
		rc = -1;
	}
	if (rc < 0)
		gck_inside_link_drop(m);
	return rc;
}

void gck_inside_link_drop(struct gck_inside_message *m)
{
	free(m->data);
	m->data = NULL;
	while (m->nfds)
		close(m->fds[--m->nfds]);
}
