/* SPDX-License-Identifier: Apache-2.0
 * Descriptors with two ends: pipes and socketpairs within the rank. Sockets of other kinds are
 * named as well as possible. */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/process/fds.h"
#include "shim/process/procfs.h"

int gck_fd_pipe(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, v->fd), size;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	size = fcntl(copy, F_GETPIPE_SZ);
	close(copy);
	x->kind = GCK_FD_PIPE;
	x->id = v->st.st_ino;
	x->pipe_size = size > 0 ? (uint32_t)size : 0;
	x->write_end = (x->flags & O_ACCMODE) == O_WRONLY;
	if ((x->flags & O_ACCMODE) == O_RDWR)
		gck_find(s->f, true, v->object, "use pipe()",
			 "a pipe opened for reading and writing");
	return 0;
}

struct peer {
	uint32_t inode;     /* 0: none */
	uint32_t shutdown;
};

/* Ask the kernel for a unix socket's peer (sock_diag(7)). */
static int ask_peer(uint32_t inode, struct peer *p, struct gck_error *err)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} request = {
		.head = {.nlmsg_len = sizeof(request), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_ino = inode,
			 .udiag_show = UDIAG_SHOW_PEER, .udiag_cookie = {~0u, ~0u}},
	};
	union {
		struct nlmsghdr head;
		char room[4096];
	} answer;
	struct rtattr a;
	const char *at;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n = -1;

	*p = (struct peer){0};
	if (fd >= 0 && send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request))
		n = recv(fd, &answer, sizeof(answer), 0);
	if (fd >= 0)
		close(fd);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct unix_diag_msg)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return gck_fail(err, ENOTSUP, "the kernel does not tell the peer of a socket "
				"(CONFIG_UNIX_DIAG)");
	at = (const char *)&answer + NLMSG_SPACE(sizeof(struct unix_diag_msg));
	while (at + sizeof(a) <= (const char *)&answer + n) {
		memcpy(&a, at, sizeof(a));
		if (a.rta_len < sizeof(a))
			break;
		if (a.rta_type == UNIX_DIAG_PEER)
			memcpy(&p->inode, at + RTA_LENGTH(0), sizeof(p->inode));
		if (a.rta_type == UNIX_DIAG_SHUTDOWN)
			p->shutdown = (unsigned char)at[RTA_LENGTH(0)] & 3;
		at += RTA_ALIGN(a.rta_len);
	}
	return 0;
}

static void address_text(const struct sockaddr_storage *a, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";
	unsigned port = 0;

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)a;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		port = ntohs(in->sin_port);
	} else if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)a;

		inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
		port = ntohs(in->sin6_port);
	}
	snprintf(text, size, "%s port %u", host, port);
}

/* A socket that is not carried, named for the user. */
static void name_socket(struct gck_scan *s, const struct gck_fd_view *v, int copy, int domain,
			int type, bool listening)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);
	char text[80] = "";
	bool peer = getpeername(copy, (void *)&a, &n) == 0;

	if (domain == AF_INET || domain == AF_INET6) {
		n = sizeof(a);
		if (!peer)
			getsockname(copy, (void *)&a, &n);
		address_text(&a, text, sizeof(text));
		gck_find(s->f, true, v->object, "close it before a checkpoint", "%s %s %s",
			 listening ? "a listening socket at"
				   : type == SOCK_STREAM ? "a TCP connection" : "a UDP socket",
			 listening ? "" : peer ? "to" : "at", text);
	} else if (domain == AF_UNIX) {
		gck_find(s->f, true, v->object, "close it before a checkpoint",
			 "a unix socket that is %s",
			 listening ? "listening" : "connected to another process or has a name");
	} else {
		gck_find(s->f, true, v->object, "close it before a checkpoint",
			 "a socket of address family %d", domain);
	}
}

static int get_option(int fd, int option)
{
	int value = -1;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) ? -1 : value;
}

/* Without a name, so made by socketpair(). */
static bool unnamed(int fd)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);

	if (getsockname(fd, (void *)&a, &n) || n > sizeof(a.sun_family))
		return false;
	n = sizeof(a);
	return getpeername(fd, (void *)&a, &n) != 0 || n <= sizeof(a.sun_family);
}

int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, v->fd), domain, type;
	struct peer p;
	bool listening;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	domain = get_option(copy, SO_DOMAIN);
	type = get_option(copy, SO_TYPE);
	listening = get_option(copy, SO_ACCEPTCONN) > 0;
	x->kind = GCK_FD_SOCKETPAIR;
	x->sock_type = type;
	if (domain != AF_UNIX || listening || !unnamed(copy)) {
		name_socket(s, v, copy, domain, type, listening);
		close(copy);
		return 0;
	}
	close(copy);
	if (ask_peer((uint32_t)v->st.st_ino, &p, s->err))
		return -1;
	x->shutdown = p.shutdown;
	x->id = p.inode && p.inode < v->st.st_ino ? p.inode : v->st.st_ino;
	/* until the ends are checked: does it have a peer? */
	x->count = p.inode != 0;
	if (gck_proc_number(v->info, "scm_fds:", 10, 0))
		gck_find(s->f, true, v->object, "receive it first",
			 "a descriptor is under way in a socketpair");
	return 0;
}

/* Does anybody have the other end of this pipe? */
static int pipe_peer(struct gck_scan *s, int fd, bool write_end)
{
	struct pollfd p = {.fd = gck_target_fd(s->t, fd), .events = POLLIN};

	if (p.fd < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
				(int)s->t->pid, strerror(errno));
	poll(&p, 1, 0);
	close(p.fd);
	return !(p.revents & (write_end ? POLLERR : POLLHUP));
}

/* 1 if the end is somewhere else, 0 if nowhere or in the rank. */
static int outside(struct gck_scan *s, size_t i, const int *fds)
{
	struct gck_file *x = &s->img->files[i];
	size_t other = 0, same = 0;

	for (size_t k = 0; k < s->img->nfiles; k++) {
		const struct gck_file *o = &s->img->files[k];

		if (k == i || o->kind != x->kind || o->id != x->id)
			continue;
		if (x->kind == GCK_FD_PIPE && o->write_end == x->write_end)
			same++;
		else
			other++;
	}
	if (same) {
		char object[32];

		snprintf(object, sizeof(object), "fd %d", fds[i]);
		gck_find(s->f, true, object, "use dup()", "an end of a pipe was opened twice");
	}
	if (other)
		return 0;
	return x->kind == GCK_FD_PIPE ? pipe_peer(s, fds[i], x->write_end) : x->count != 0;
}

int gck_fds_check_ends(struct gck_scan *s, const int *fds)
{
	for (size_t i = 0; i < s->img->nfiles; i++) {
		struct gck_file *x = &s->img->files[i];
		char object[32];
		int result;

		if (x->kind != GCK_FD_PIPE && x->kind != GCK_FD_SOCKETPAIR)
			continue;
		result = outside(s, i, fds);
		if (result < 0)
			return -1;
		snprintf(object, sizeof(object), "fd %d", fds[i]);
		if (result)
			gck_find(s->f, true, object, "close it before a checkpoint",
				 "the other end of a %s is in another process",
				 x->kind == GCK_FD_PIPE ? "pipe" : "socketpair");
	}
	for (size_t i = 0; i < s->img->nfiles; i++)
		if (s->img->files[i].kind == GCK_FD_SOCKETPAIR)
			s->img->files[i].count = 0;
	return 0;
}
