/* SPDX-License-Identifier: Apache-2.0
 * Sockets: scan, and copy while the rank is held. Images hold unix sockets that are connected to
 * each other, listen, or have a name; others are refused by kind and address. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
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
#include "shim/process/proc/unix_socket.h"

/* ---- scan ---------------------------------------------------------------------------------- */

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
static void refuse_other(struct gck_scan *s, const struct gck_fd_view *v, int copy, int domain,
			 const struct gck_file *x, bool listening)
{
	char text[128];

	if (domain == AF_INET || domain == AF_INET6)
		network_text(copy, x->sock_type, listening, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "a socket of address family %d", domain);
	gck_obstacle_add(s->f, true, v->object, "close it before a checkpoint", "%s", text);
}

int gck_socket_number(int fd, int option)
{
	int value = -1;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) ? -1 : value;
}

/* The name of a file must still be the socket's: a restart makes it again. */
static void check_path(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x,
		       const struct gck_unix_socket *k)
{
	struct stat st;

	if (x->path[0] != '/')
		gck_obstacle_add(s->f, true, v->object, "use an absolute name",
				 "a unix socket with a relative name: %s", x->path);
	else if (x->kind != GCK_FD_SOCKETPAIR &&
		 (stat(x->path, &st) || !S_ISSOCK(st.st_mode) || (uint32_t)st.st_ino != k->file))
		gck_obstacle_add(s->f, true, v->object, "close it before a checkpoint",
				 "a unix socket whose name is gone, or another file's: %s",
				 x->path);
	else if (x->kind != GCK_FD_SOCKETPAIR)
		x->mode = st.st_mode;
}

/* Its own name, if it has one. */
static int read_name(struct gck_scan *s, const struct gck_fd_view *v, int fd,
		     const struct gck_unix_socket *k, struct gck_file *x)
{
	const size_t head = offsetof(struct sockaddr_un, sun_path);
	struct sockaddr_un a = {0};
	socklen_t n = sizeof(a);

	if (getsockname(fd, (void *)&a, &n))
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	if (n <= head + 1)
		return 0;
	n = n < sizeof(a) ? n : sizeof(a);
	if (a.sun_path[0]) {
		x->path = strndup(a.sun_path, n - head);
	} else {
		x->name = malloc(n - head - 1);
		x->name_size = n - head - 1;
	}
	if (!x->path && !x->name)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	if (x->path)
		check_path(s, v, x, k);
	else
		memcpy(x->name, a.sun_path + 1, x->name_size);
	return 0;
}

/* The connections that wait to be accepted: their clients must be there (gck_tree_connect). */
static int read_queue(struct gck_scan *s, const struct gck_fd_view *v,
		      const struct gck_unix_socket *k, struct gck_file *x)
{
	bool closed = k->nqueue != k->waiting;

	x->count = k->backlog;
	for (size_t i = 0; i < k->nqueue; i++) {
		struct gck_connection *c = gck_grow(&x->queue, &x->nqueue, sizeof(*c), s->err);

		if (!c)
			return -1;
		c->id = k->queue[i];
		closed |= !c->id;
	}
	if (closed)
		gck_obstacle_add_passing(s->f, v->object, "try again",
					 "a connection that its client has closed waits to be "
					 "accepted");
	return 0;
}

/* Who made the other end, or listens. 0: nobody, as of datagram sockets that are no pair's. */
static int32_t peer_pid(const struct gck_scan *s, int fd)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.pid > 0
		       ? gck_target_vtid(s->t, peer.pid) : 0;
}

/* Options that matter to a unix socket. */
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

/* A client whose connection is not accepted yet has a peer that no process has. */
static void read_end(uint32_t inode, int fd, const struct gck_unix_socket *k, struct gck_file *x)
{
	int sent = 0;

	x->shutdown = k->shutdown;
	x->id = k->peer && k->peer < inode ? k->peer : inode;
	x->queued = !k->peer && x->sock_type != SOCK_DGRAM && k->shutdown != 3;
	x->unread = x->queued && (ioctl(fd, SIOCOUTQ, &sent) || sent || k->shutdown);
	/* until gck_fds_check_ends: whether it has a peer */
	x->count = k->peer != 0;
}

/* Whether the peer of a datagram socket is connected to that, too; so is one that is closed. */
static bool is_mutual(uint32_t inode, const struct gck_unix_socket *k)
{
	struct gck_unix_socket peer;

	return !k->peer || (!gck_unix_socket(k->peer, &peer, NULL) && peer.peer == inode);
}

static int read_unix(struct gck_scan *s, const struct gck_fd_view *v, int fd, bool listening,
		     struct gck_file *x)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);
	struct gck_unix_socket k;
	struct stat st; /* one that runs may have put another in the descriptor's place */
	uint32_t inode;

	if (fstat(fd, &st))
		return gck_fail(s->err, errno, "cannot look at a unix socket: %s",
				strerror(errno));
	inode = (uint32_t)st.st_ino;
	if (gck_unix_socket(inode, &k, s->err))
		return -1;
	x->peer_pid = peer_pid(s, fd);
	if (listening)
		x->kind = GCK_FD_LISTENER;
	else if (getpeername(fd, (void *)&a, &n) ||
		 (x->sock_type == SOCK_DGRAM && !is_mutual(inode, &k)))
		x->kind = GCK_FD_SOCKET;
	if (x->kind == GCK_FD_SOCKETPAIR) {
		read_end(inode, fd, &k, x);
	} else {
		x->id = inode;
		x->shutdown = k.shutdown;
		x->to = x->kind == GCK_FD_SOCKET ? k.peer : 0;
	}
	x->in_flight = (uint32_t)gck_proc_number(v->info, "scm_fds:", 10, 0);
	if (x->in_flight && x->kind != GCK_FD_SOCKETPAIR)
		gck_obstacle_add_passing(s->f, v->object, "receive it first",
					 "a descriptor is under way in a unix socket that is not "
					 "connected");
	return read_name(s, v, fd, &k, x) || read_options(s, fd, x) ||
	       (listening && read_queue(s, v, &k, x)) ? -1 : 0;
}

int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	int copy = gck_target_fd(s->t, v->fd), domain, result = 0;
	bool listening;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
				(int)s->t->pid, strerror(errno));
	domain = gck_socket_number(copy, SO_DOMAIN);
	listening = gck_socket_number(copy, SO_ACCEPTCONN) > 0;
	x->kind = GCK_FD_SOCKETPAIR;
	x->sock_type = gck_socket_number(copy, SO_TYPE);
	if (domain == AF_UNIX)
		result = read_unix(s, v, copy, listening, x);
	else
		refuse_other(s, v, copy, domain, x, listening);
	close(copy);
	return result;
}

/* An empty packet can be seen once. */
static bool brings_empty(const struct gck_packets *p)
{
	bool empty = false;

	for (size_t i = 0; i < p->n; i++)
		empty |= p->v[i].nrights && !p->v[i].size;
	return empty;
}

int gck_socket_fly(struct gck_scan *s, size_t i, int fd, int first)
{
	struct gck_file *x = &s->img->files[i];
	struct gck_packets p = {0};
	int copy = gck_target_fd(s->t, fd), number = 0, result;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look into a unix socket: %s",
				strerror(errno));
	result = gck_packets_peek(&p, copy, x->sock_type, -1, s->err);
	close(copy);
	if (!result && (p.nrights != x->in_flight || brings_empty(&p)))
		result = gck_fail(s->err, EAGAIN, "a descriptor is under way with an empty packet; "
				  "try again when it is received");
	for (size_t k = 0; k < p.nrights && !result; k++) {
		int right = p.rights[k];

		p.rights[k] = -1;
		number = gck_flight_add(s->t, right, first, s->err);
		result = number < 0;
		x->first_right = k ? x->first_right : number;
	}
	gck_packets_free(&p);
	return result ? -1 : 0;
}

/* ---- hold ---------------------------------------------------------------------------------- */

static int hold_bytes(struct gck_hold *h, uint32_t i, int fd, int bytes)
{
	char *data = malloc((size_t)bytes);
	int result;

	if (!data || recv(fd, data, (size_t)bytes, MSG_PEEK | MSG_DONTWAIT) != bytes)
		result = gck_fail(h->err, EAGAIN, "cannot copy the %d bytes in a socketpair; try "
				  "again", bytes);
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

/* They are those that gck_socket_fly has seen. */
static int number_rights(struct gck_hold *h, uint32_t i, struct gck_packets *p)
{
	int next = h->img->files[i].first_right;

	if (p->nrights != h->img->files[i].in_flight)
		return gck_fail(h->err, EAGAIN, "the descriptors under way in a unix socket "
				"changed; try again");
	for (size_t k = 0; k < p->n; k++)
		for (size_t m = 0; m < p->v[k].nrights; m++)
			p->v[k].rights[m].fd = next++;
	return 0;
}

static int hold_packets(struct gck_hold *h, uint32_t i, int fd)
{
	int from = other_end(h, i);
	struct gck_packets p = {.senders = h->img->files[i].kind == GCK_FD_SOCKET};
	int result = gck_packets_peek(&p, fd, h->img->files[i].sock_type, from, h->err);

	if (!result && p.n)
		result = number_rights(h, i, &p) || gck_hold_packets(h, i, &p, true);
	gck_packets_free(&p);
	if (from >= 0)
		close(from);
	return result;
}

int gck_hold_socket(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), result;

	if (fd < 0)
		return gck_fail(h->err, errno, "cannot look into a socketpair: %s",
				strerror(errno));
	result = x->sock_type == SOCK_STREAM && !x->in_flight ? hold_stream(h, i, fd)
							      : hold_packets(h, i, fd);
	close(fd);
	return result;
}
