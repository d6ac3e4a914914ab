/* SPDX-License-Identifier: Apache-2.0
 * Sockets: scan, copy while the rank is held, restore. Images hold socketpairs within the rank, and
 * unix sockets that listen under an abstract name; others are refused by kind and address. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/process/memory/packets.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"

/* ---- scan ---------------------------------------------------------------------------------- */

/* What sock_diag(7) reports of a unix socket. */
struct known {
	uint32_t peer;      /* its inode; 0: none */
	uint32_t shutdown;
	uint32_t waiting;   /* of a listening one: connections not accepted yet */
	uint32_t backlog;
};

static int ask_kernel(uint32_t inode, struct known *k, struct gck_error *err)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_UNIX,
			 .udiag_states = ~0u,
			 .udiag_ino = inode,
			 .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN,
			 .udiag_cookie = {~0u, ~0u}},
	};
	union {
		struct nlmsghdr head;
		char buffer[4096];
	} answer;
	struct unix_diag_rqlen queue;
	struct rtattr a;
	const char *at;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n = -1;

	*k = (struct known){0};
	if (fd >= 0 && send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request))
		n = recv(fd, &answer, sizeof(answer), 0);
	if (fd >= 0)
		close(fd);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct unix_diag_msg)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return gck_fail(err, ENOTSUP, "the kernel does not describe a socket "
				"(CONFIG_UNIX_DIAG)");
	at = (const char *)&answer + NLMSG_SPACE(sizeof(struct unix_diag_msg));
	while (at + sizeof(a) <= (const char *)&answer + n) {
		memcpy(&a, at, sizeof(a));
		if (a.rta_len < sizeof(a))
			break;
		if (a.rta_type == UNIX_DIAG_PEER)
			memcpy(&k->peer, at + RTA_LENGTH(0), sizeof(k->peer));
		if (a.rta_type == UNIX_DIAG_SHUTDOWN)
			k->shutdown = (unsigned char)at[RTA_LENGTH(0)] & 3;
		if (a.rta_type == UNIX_DIAG_RQLEN) {
			memcpy(&queue, at + RTA_LENGTH(0), sizeof(queue));
			k->waiting = queue.udiag_rqueue;
			k->backlog = queue.udiag_wqueue;
		}
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

/* "a TCP socket, connected to 10.0.0.1 port 80", "a UDP socket, not connected". */
static void network_text(int copy, int type, bool listening, char *text, size_t size)
{
	const char *kind = type == SOCK_STREAM ? "TCP" : type == SOCK_DGRAM ? "UDP" : "raw";
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);
	char address[80];
	bool peer = getpeername(copy, (void *)&a, &n) == 0, own;

	n = sizeof(a);
	own = !peer && getsockname(copy, (void *)&a, &n) == 0 &&
	      ((const struct sockaddr_in *)&a)->sin_port; /* at the same place in IPv6's */
	address_text(&a, address, sizeof(address));
	if (listening)
		snprintf(text, size, "a listening socket at %s", address);
	else if (peer || own)
		snprintf(text, size, "a %s socket, %s %s", kind, peer ? "connected to" : "bound to",
			 address);
	else
		snprintf(text, size, "a %s socket, not connected", kind);
}

/* Refuse a socket, with its kind and address. */
static void name_socket(struct gck_scan *s, const struct gck_fd_view *v, int copy, int domain,
			int type, bool listening)
{
	char text[128];

	if (domain == AF_INET || domain == AF_INET6) {
		network_text(copy, type, listening, text, sizeof(text));
		gck_obstacle_add(s->f, true, v->object, "close it before a checkpoint", "%s", text);
	} else if (domain == AF_UNIX) {
		gck_obstacle_add(s->f, true, v->object, "close it before a checkpoint",
				 "a unix socket that is %s",
				 listening ? "listening under the name of a file"
					   : "connected to another process or has a name");
	} else {
		gck_obstacle_add(s->f, true, v->object, "close it before a checkpoint",
			 "a socket of address family %d", domain);
	}
}

static int get_option(int fd, int option)
{
	int value = -1;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) ? -1 : value;
}

/* Whether it has no name, as after socketpair(). */
static bool unnamed(int fd)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);

	if (getsockname(fd, (void *)&a, &n) || n > sizeof(a.sun_family))
		return false;
	n = sizeof(a);
	return getpeername(fd, (void *)&a, &n) != 0 || n <= sizeof(a.sun_family);
}

/* The socket's abstract name, after its first zero. Returns the length; 0: none. */
static size_t abstract_name(int fd, unsigned char name[GCK_SOCKET_NAME_MAX])
{
	const size_t head = offsetof(struct sockaddr_un, sun_path) + 1;
	struct sockaddr_un a;
	socklen_t n = sizeof(a);

	if (getsockname(fd, (void *)&a, &n) || n <= head || n > sizeof(a) || a.sun_path[0])
		return 0;
	memcpy(name, a.sun_path + 1, n - head);
	return n - head;
}

static int read_listener(struct gck_scan *s, const struct gck_fd_view *v,
			 const unsigned char *name, size_t size, struct gck_file *x)
{
	struct known k;

	if (ask_kernel((uint32_t)v->st.st_ino, &k, s->err))
		return -1;
	x->kind = GCK_FD_LISTENER;
	x->count = k.backlog;
	x->name = malloc(size);
	if (!x->name)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	memcpy(x->name, name, size);
	x->name_size = size;
	if (k.waiting)
		gck_obstacle_add_passing(s->f, v->object, "try again",
				 "a connection to @%.*s waits to be accepted",
				 (int)size, (const char *)name);
	return 0;
}

/* Options that matter to a socketpair. */
static const int options[] = {
	SO_SNDBUF, SO_RCVBUF, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SO_PASSCRED, SO_PEEK_OFF,
	SO_TIMESTAMP, SO_TIMESTAMPNS,
};

static int read_options(struct gck_scan *s, int fd, struct gck_file *x)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		unsigned char value[16];
		socklen_t n = sizeof value;
		struct gck_socket_option *o;

		if (getsockopt(fd, SOL_SOCKET, options[i], value, &n))
			continue; /* not of this kind of socket */
		o = gck_grow(&x->options, &x->noptions, sizeof *o, s->err);
		if (!o)
			return -1;
		o->name = options[i];
		o->size = n;
		o->value = malloc(n);
		if (!o->value)
			return gck_fail(s->err, ENOMEM, "out of memory for the image");
		memcpy(o->value, value, n);
	}
	return 0;
}

static int read_end(struct gck_scan *s, const struct gck_fd_view *v, int copy, struct gck_file *x)
{
	struct known k;

	if (ask_kernel((uint32_t)v->st.st_ino, &k, s->err))
		return -1;
	x->kind = GCK_FD_SOCKETPAIR;
	x->shutdown = k.shutdown;
	x->id = k.peer && k.peer < v->st.st_ino ? k.peer : v->st.st_ino;
	if (read_options(s, copy, x))
		return -1;
	/* until gck_fds_check_ends: whether it has a peer */
	x->count = k.peer != 0;
	if (gck_proc_number(v->info, "scm_fds:", 10, 0))
		gck_obstacle_add(s->f, true, v->object, "receive it first",
			 "a descriptor is under way in a socketpair");
	return 0;
}

int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, v->fd), domain, result = 0;
	unsigned char name[GCK_SOCKET_NAME_MAX];
	bool listening;
	size_t n;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	domain = get_option(copy, SO_DOMAIN);
	listening = get_option(copy, SO_ACCEPTCONN) > 0;
	x->kind = GCK_FD_SOCKETPAIR;
	x->sock_type = get_option(copy, SO_TYPE);
	if (domain == AF_UNIX && listening && (n = abstract_name(copy, name)))
		result = read_listener(s, v, name, n, x);
	else if (domain == AF_UNIX && !listening && unnamed(copy))
		result = read_end(s, v, copy, x);
	else
		name_socket(s, v, copy, domain, x->sock_type, listening);
	close(copy);
	return result;
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Copy the bytes that wait in a socket. *descriptors: whether descriptors come with them. */
static ssize_t peek(int fd, char *data, size_t size, bool *descriptors)
{
	union {
		struct cmsghdr head;
		char buffer[CMSG_SPACE(253 * sizeof(int)) + 256];
	} control;
	struct iovec part = {data, size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*descriptors = false;
	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*descriptors = true;
		for (size_t k = 0; k < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); k++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + k * sizeof(int), sizeof(got));
			close(got);
		}
	}
	return n;
}

static int hold_bytes(struct gck_hold *h, uint32_t i, int fd, int bytes)
{
	bool descriptors = false;
	char *data = malloc((size_t)bytes);
	int result;

	if (!data || peek(fd, data, (size_t)bytes, &descriptors) != bytes || descriptors)
		result = gck_fail(h->err, EAGAIN, "cannot copy the %d bytes in a socketpair%s; try "
				  "again", bytes,
				  descriptors ? ": a descriptor comes with them" : "");
	else
		result = gck_hold_bytes(h, i, data, (size_t)bytes);
	free(data);
	return result;
}

static int hold_stream(struct gck_hold *h, uint32_t i, int fd)
{
	int bytes = 0, before = -1, set, result;

	if (ioctl(fd, FIONREAD, &bytes))
		return gck_fail(h->err, errno, "cannot look into a socketpair: %s",
				strerror(errno));
	if (!bytes)
		return 0;
	if (gck_peek_offset(fd, -1, &before, h->err))
		return -1;
	result = hold_bytes(h, i, fd, bytes);
	return gck_peek_offset(fd, before, &set, result ? NULL : h->err) ? -1 : result;
}

static int fd_of(pid_t pid, int fd)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), copy;

	copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	if (process >= 0)
		close(process);
	return copy;
}

/* A descriptor of ours for the other end; -1: it is closed. */
static int other_end(const struct gck_hold *h, uint32_t i)
{
	const struct gck_file *all = h->img->files;

	if (all[i].other_pid)
		return fd_of(all[i].other_pid, all[i].other_fd);

	for (uint32_t k = 0; k < h->img->nfiles; k++)
		if (k != i && all[k].kind == GCK_FD_SOCKETPAIR && all[k].id == all[i].id)
			return gck_target_fd(h->t, gck_image_fd_of(h->img, k));
	return -1;
}

static int hold_packets(struct gck_hold *h, uint32_t i, int fd)
{
	int from = other_end(h, i);
	struct gck_packets p = {0};
	int result = gck_packets_peek(&p, fd, h->img->files[i].sock_type, from, h->err);

	if (!result && p.n)
		result = gck_hold_packets(h, i, &p, true);
	gck_packets_free(&p);
	if (from >= 0)
		close(from);
	return result;
}

int gck_hold_socket(struct gck_hold *h, uint32_t i)
{
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), result;

	if (fd < 0)
		return gck_fail(h->err, errno, "cannot look into a socketpair: %s",
				strerror(errno));
	result = h->img->files[i].sock_type == SOCK_STREAM ? hold_stream(h, i, fd)
							   : hold_packets(h, i, fd);
	close(fd);
	return result;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* size: as the kernel reports it, which has doubled it. A node may allow less. */
static void set_buffer(int fd, int option, int size)
{
	int value = size / 2;

	if (get_option(fd, option) != size)
		setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

static bool has_option(int fd, const struct gck_socket_option *o)
{
	unsigned char now[16];
	socklen_t n = sizeof now;

	return !getsockopt(fd, SOL_SOCKET, o->name, now, &n) && n == o->size &&
	       !memcmp(now, o->value, n);
}

/* Only what differs: switching one kind of time stamps off switches the other off, too. */
static int set_options(int fd, const struct gck_file *f, struct gck_error *err)
{
	for (size_t i = 0; i < f->noptions; i++) {
		const struct gck_socket_option *o = &f->options[i];
		int size;

		memcpy(&size, o->value, sizeof size);
		if (o->name == SO_SNDBUF || o->name == SO_RCVBUF)
			set_buffer(fd, o->name, size);
		else if (!has_option(fd, o) &&
			 setsockopt(fd, SOL_SOCKET, o->name, o->value, (socklen_t)o->size))
			return gck_fail(err, errno, "setting option %d of a socketpair: %s",
					o->name, strerror(errno));
	}
	return 0;
}

/* An end's data is what it can still receive, so it is sent from the other end, whose buffer may
 * not have its size yet. */
static int refill(struct gck_restore *r, const struct gck_file *f, int from, struct gck_error *err)
{
	int size = get_option(from, SO_SNDBUF), failed;

	set_buffer(from, SO_SNDBUF, INT32_MAX);
	failed = gck_make_refill(r, f, from, err);
	set_buffer(from, SO_SNDBUF, size);
	return failed;
}

int gck_make_socket(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = gck_pair_find(r, f);
	int side = pair ? 1 : 0;

	if (!pair && !(pair = gck_pair_add(r, f, err)))
		return -1;
	if (set_options(pair->end[side], f, err) || refill(r, f, pair->end[!side], err))
		return -1;
	if (gck_make_status(pair->end[side], f, err))
		return -1;
	return dup(pair->end[side]);
}

/* In a trial its name is left to whoever has it. */
int gck_make_listener(const struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + f->name_size;
	int fd = socket(AF_UNIX, f->sock_type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return gck_make_failed(err, f, "socket");
	memcpy(a.sun_path + 1, f->name, f->name_size);
	if (!r->trial && (bind(fd, (struct sockaddr *)&a, (socklen_t)size) ||
			  listen(fd, (int)f->count))) {
		gck_fail(err, errno, "listening at @%.*s: %s", (int)f->name_size,
			 (const char *)f->name, strerror(errno));
		return gck_close_failed(fd);
	}
	return gck_make_status(fd, f, err) ? gck_close_failed(fd) : fd;
}

/* Repeat the shutdowns, after both ends have been refilled. */
int gck_restore_shutdowns(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);

		if (f->kind == GCK_FD_SOCKETPAIR && f->shutdown && d &&
		    gck_remote_call(&r->remote, r->remote.pid, err, SYS_shutdown, (uint64_t)d->fd,
				    f->shutdown == 3   ? SHUT_RDWR
				    : f->shutdown == 2 ? SHUT_WR
						       : SHUT_RD))
			return gck_fail(err, EIO, "descriptor %d: shutting its socket down failed",
					d->fd);
	}
	return 0;
}
