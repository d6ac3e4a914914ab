/* SPDX-License-Identifier: Apache-2.0
 * Restore of unix sockets. Pairs without a name are made when their first end is placed. All that
 * have names or connections are made before, for all processes: connected ones first, by
 * listening for a moment under the name of the end that was accepted, then those that listen with
 * what waits there, then the others. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/place/place.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/ptrace/restore_note.h"
#include "shim/process/ptrace/socket_maker.h"

/* ---- options ------------------------------------------------------------------------------- */

/* size: as the kernel reports it, which has doubled it. A node may allow less. */
static void set_buffer(int fd, int option, int size)
{
	int value = size / 2;

	if (gck_socket_number(fd, option) != size)
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
			return gck_fail(err, errno, "setting option %d of a unix socket: %s",
					o->name, strerror(errno));
	}
	return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

struct address {
	struct sockaddr_un a;
	socklen_t n;             /* 0: no name */
};

static struct address address_of(const unsigned char *name, size_t size, bool abstract)
{
	struct address x = {.a.sun_family = AF_UNIX};

	memcpy(x.a.sun_path + abstract, name, size);
	x.n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + size);
	return x;
}

static struct address address_of_file(const struct gck_file *f)
{
	if (f->path)
		return address_of((const void *)f->path, strlen(f->path), false);
	return f->name_size ? address_of(f->name, f->name_size, true) : (struct address){0};
}

static bool same_address(const struct address *x, const struct address *y)
{
	return x->n && x->n == y->n && !memcmp(&x->a, &y->a, sizeof x->a);
}

static bool has_name(const struct gck_file *f)
{
	return f->path || f->name_size;
}

/* For messages. */
struct name_text {
	char text[sizeof((struct sockaddr_un *)0)->sun_path + 2];
};

static struct name_text text_of(const struct gck_file *f)
{
	struct name_text x = {{0}};

	if (f->path)
		snprintf(x.text, sizeof x.text, "%s", f->path);
	else
		snprintf(x.text, sizeof x.text, "@%.*s", (int)f->name_size, (const char *)f->name);
	return x;
}

/* A connect by a SOCK_DGRAM finds out, and leaves no trace. */
static bool is_served(const struct address *x)
{
	int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool served = probe < 0 || !connect(probe, (const void *)&x->a, x->n) ||
		      errno != ECONNREFUSED;

	if (probe >= 0)
		close(probe);
	return served;
}

/* Bind it in this place, from which a socket that nobody serves is removed. mode: of the file; 0:
 * the umask's. -1 with errno. */
static int bind_at(struct gck_restore *root, int fd, const struct address *x,
		   const struct gck_place *p, uint32_t mode)
{
	struct stat st;
	char path[sizeof x->a.sun_path + 1] = "";

	memcpy(path, x->a.sun_path, x->n - offsetof(struct sockaddr_un, sun_path));
	if (!p->missing && (!S_ISSOCK(p->st.st_mode) || is_served(x)))
		return errno = EADDRINUSE, -1;
	if ((!p->missing && unlinkat(p->dir, p->name, 0)) ||
	    bind(fd, (const void *)&x->a, x->n) ||
	    fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    (mode && fchmodat(p->dir, p->name, mode & 07777, 0)))
		return -1;
	return gck_restore_note_made(root, path, &st);
}

/* *missing: it is now the name of a file that was not there. */
static int bind_name(struct gck_restore *root, int fd, const struct address *x, uint32_t mode,
		     bool *missing)
{
	char path[sizeof x->a.sun_path + 1] = "";
	struct gck_place p;
	int failed;

	*missing = false;
	if (!x->n)
		return 0;
	if (!x->a.sun_path[0])
		return bind(fd, (const void *)&x->a, x->n);
	memcpy(path, x->a.sun_path, x->n - offsetof(struct sockaddr_un, sun_path));
	if (gck_place_find(path, &p))
		return -1;
	failed = bind_at(root, fd, x, &p, mode);
	*missing = !failed && p.missing;
	gck_place_leave(&p);
	return failed;
}

static int bind_file(struct gck_restore *root, int fd, const struct gck_file *f,
		     struct gck_error *err)
{
	struct address x = address_of_file(f);
	bool missing;

	if (bind_name(root, fd, &x, f->path ? f->mode : 0, &missing))
		return gck_fail(err, errno, "giving a unix socket its name %s: %s",
				text_of(f).text, gck_place_reason(errno));
	return 0;
}

/* ---- connected sockets --------------------------------------------------------------------- */

/* The first file of the tree of this kind and id, but for one. */
static const struct gck_file *find_file(const struct gck_restore *r, enum gck_fd_kind kind,
					uint64_t id, const struct gck_file *but)
{
	const struct gck_file *found = NULL;

	for (size_t i = 0; i < r->img->nfiles && !found; i++) {
		const struct gck_file *f = &r->img->files[i];
		bool same = but && (f == but || (f->shared && f->shared == but->shared));

		if (f->kind == kind && f->id == id && !same)
			found = f;
	}
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = find_file(r->children[i], kind, id, but);
	return found;
}

/* The process that SO_PEERCRED names at this end. NULL: it has ended, or is unknown. */
static struct gck_restore *maker(struct gck_restore *root, const struct gck_file *f)
{
	return f && f->peer_pid ? gck_restore_find(root, f->peer_pid) : NULL;
}

/* Bind a socket that can do without its name. */
static int bind_if_possible(struct gck_restore *root, int fd, const struct gck_file *f,
			    struct gck_error *err)
{
	struct gck_error why;

	return f && has_name(f) && bind_file(root, fd, f, &why)
		       ? gck_restore_note(root, err, "a connected socket has no name now: %s",
					  why.text)
		       : 0;
}

/* Connect the client to what is accepted under the name x. A descriptor of that, or -1. */
static int accept_one(struct gck_restore *root, const struct gck_made_socket *listener,
		      const struct gck_made_socket *client, const struct address *x)
{
	bool missing = false;
	int accepted = -1;

	if (!bind_name(root, listener->fd, x, 0, &missing) && !gck_socket_listen(listener, 1) &&
	    !gck_socket_connect(client, (const void *)&x->a, x->n))
		accepted = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	if (missing)
		gck_restore_drop_last_made(root);
	return accepted;
}

/* Without the name. */
static int pair_instead(struct gck_restore *root, struct gck_pair *pair, struct gck_error *err)
{
	const struct gck_file *f = pair->of[1];
	struct gck_restore *by = maker(root, f);

	if (gck_restore_note(root, err, "a connected socket has no name now: giving it %s: %s",
			     text_of(f).text, gck_place_reason(errno)))
		return -1;
	close(pair->end[0]);
	pair->end[0] = -1;
	return gck_socket_pair(by ? by : maker(root, pair->of[0]), f->sock_type, pair->end)
		       ? gck_make_failed(err, f, "unix socket") : 0;
}

/* of[1] of the pair was accepted under its name. Each end names who made the other. */
static int connect_pair(struct gck_restore *root, struct gck_pair *pair, struct gck_error *err)
{
	const struct gck_file *f = pair->of[1];
	struct address x = address_of_file(f);
	struct gck_made_socket listener, client = {.theirs = -1};
	int failed;

	if (gck_socket_make(&listener, maker(root, pair->of[0]), f->sock_type))
		return gck_make_failed(err, f, "unix socket");
	failed = gck_socket_make(&client, maker(root, f), f->sock_type);
	pair->end[0] = client.fd;
	if (failed)
		gck_make_failed(err, f, "unix socket");
	else
		failed = bind_if_possible(root, client.fd, pair->of[0], err);
	if (!failed)
		pair->end[1] = accept_one(root, &listener, &client, &x);
	if (!failed && pair->end[1] < 0)
		failed = pair_instead(root, pair, err);
	gck_socket_leave(&client);
	gck_socket_leave(&listener);
	close(listener.fd);
	return failed;
}

/* Datagram sockets are connected by their maker, and have their names ever after. */
static int name_pair(struct gck_restore *root, struct gck_pair *pair, struct gck_error *err)
{
	if (gck_socket_pair(maker(root, pair->of[1]), SOCK_DGRAM, pair->end))
		return gck_make_failed(err, pair->of[1], "unix socket");
	return bind_if_possible(root, pair->end[0], pair->of[0], err) ||
	       bind_if_possible(root, pair->end[1], pair->of[1], err) ? -1 : 0;
}

/* Whether a socket of the tree listens under this name. */
static bool is_listened(const struct gck_restore *r, const struct address *name)
{
	bool found = false;

	for (size_t i = 0; i < r->img->nfiles && !found; i++) {
		struct address x = address_of_file(&r->img->files[i]);

		found = r->img->files[i].kind == GCK_FD_LISTENER && same_address(&x, name);
	}
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = is_listened(r->children[i], name);
	return found;
}

/* A client that is not accepted is its listener's. */
static bool is_queued(const struct gck_restore *r, uint64_t id)
{
	bool queued = false;

	for (size_t i = 0; i < r->img->nfiles; i++)
		for (size_t k = 0; k < r->img->files[i].nqueue; k++)
			queued |= r->img->files[i].queue[k].id == id;
	for (size_t i = 0; i < r->nchildren; i++)
		queued |= is_queued(r->children[i], id);
	return queued;
}

static int make_connected(struct gck_restore *root, const struct gck_file *f,
			  struct gck_error *err)
{
	struct gck_pair pair = {.kind = f->kind, .id = f->id, .end = {-1, -1}};
	struct address name = address_of_file(f);
	const struct gck_file *other;
	int side;

	if (f->kind != GCK_FD_SOCKETPAIR || !has_name(f) || gck_pair_find(root, f) ||
	    is_queued(root, f->id))
		return 0;
	other = find_file(root, f->kind, f->id, f);
	side = !other || !has_name(other) || is_listened(root, &name);
	pair.of[side] = f;
	pair.of[!side] = other;
	if ((f->sock_type == SOCK_DGRAM ? name_pair : connect_pair)(root, &pair, err)) {
		for (int i = 0; i < 2; i++)
			if (pair.end[i] >= 0)
				close(pair.end[i]);
		return -1;
	}
	return gck_pair_keep(root, &pair, err) ? 0 : -1;
}

/* A pair without names, whose maker the program can ask for. */
static int make_pair(struct gck_restore *root, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair pair = {.kind = f->kind, .id = f->id};
	struct gck_restore *by = maker(root, f);

	if (f->kind != GCK_FD_SOCKETPAIR || !by || gck_pair_find(root, f) ||
	    is_queued(root, f->id))
		return 0;
	if (gck_socket_pair(by, f->sock_type, pair.end))
		return gck_make_failed(err, f, "unix socket");
	return gck_pair_keep(root, &pair, err) ? 0 : -1;
}

/* ---- listening sockets --------------------------------------------------------------------- */

/* The process that has this file. */
static struct gck_restore *owner(struct gck_restore *r, const struct gck_file *f)
{
	struct gck_restore *found = NULL;

	for (size_t i = 0; i < r->img->nfiles && !found; i++)
		found = &r->img->files[i] == f ? r : NULL;
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = owner(r->children[i], f);
	return found;
}

/* Its client, as far as it has come. */
static int make_waiting(struct gck_restore *root, const struct gck_file *listener, uint64_t id,
			struct gck_error *err)
{
	const struct gck_file *f = find_file(root, GCK_FD_SOCKETPAIR, id, NULL);
	struct gck_pair pair = {.kind = GCK_FD_SOCKETPAIR, .id = id, .of = {f}, .end = {-1, -1}};
	struct address x = address_of_file(listener);
	struct gck_made_socket client;
	int failed;

	if (!f)
		return gck_fail(err, EINVAL, "the manifest is damaged: who waits for a listening "
				"socket is not there");
	failed = gck_socket_make(&client, owner(root, f), f->sock_type) ||
		 bind_if_possible(root, client.fd, f, err) ||
		 gck_socket_connect(&client, (const void *)&x.a, x.n);
	if (failed)
		gck_fail(err, errno, "connecting to %s again: %s", text_of(listener).text,
			 strerror(errno));
	gck_socket_leave(&client);
	if (failed)
		return client.fd < 0 ? -1 : gck_close_failed(client.fd);
	pair.end[0] = client.fd;
	return gck_pair_keep(root, &pair, err) ? 0 : -1;
}

static int listen_again(struct gck_restore *root, const struct gck_made_socket *m,
			const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair pair = {.kind = f->kind, .id = f->id, .of = {f}, .end = {m->fd, -1}};

	if (!gck_pair_keep(root, &pair, err) || set_options(m->fd, f, err) ||
	    bind_file(root, m->fd, f, err))
		return -1;
	return gck_socket_listen(m, (int)f->count)
		       ? gck_fail(err, errno, "listening at %s: %s", text_of(f).text,
				  strerror(errno))
		       : 0;
}

static int make_listener(struct gck_restore *root, const struct gck_file *f,
			 struct gck_error *err)
{
	struct gck_made_socket listener;
	int failed;

	if (f->kind != GCK_FD_LISTENER || (f->shared && f != find_file(root, f->kind, f->id, NULL)))
		return 0;
	if (gck_socket_make(&listener, maker(root, f), f->sock_type))
		return gck_make_failed(err, f, "unix socket");
	failed = listen_again(root, &listener, f, err);
	gck_socket_leave(&listener);
	if (failed)
		return -1;
	for (size_t i = 0; i < f->nqueue; i++)
		if (make_waiting(root, f, f->queue[i].id, err))
			return -1;
	return 0;
}

/* ---- others -------------------------------------------------------------------------------- */

static int make_other(struct gck_restore *root, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair;

	if (f->kind != GCK_FD_SOCKET || f != find_file(root, f->kind, f->id, NULL))
		return 0;
	pair = gck_pair_add(root, f, err);
	if (!pair)
		return -1;
	pair->of[0] = f;
	return bind_file(root, pair->end[0], f, err);
}

/* A socket with the name from which a packet came: the one that has it, or a new one. */
static int open_sender(struct gck_restore *root, const struct gck_packet *packet,
		       struct gck_error *err)
{
	struct address x = address_of(packet->from, packet->from_size, false);
	bool missing = false;
	int fd;

	for (size_t i = 0; i < root->npairs; i++) {
		const struct gck_pair *pair = &root->pairs[i];
		struct address y = pair->kind == GCK_FD_SOCKET ? address_of_file(pair->of[0])
							       : (struct address){0};

		if (packet->from_size && same_address(&x, &y))
			return fcntl(pair->end[0], F_DUPFD_CLOEXEC, 0);
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || !packet->from_size)
		return fd;
	if (bind_name(root, fd, &x, 0, &missing) &&
	    gck_restore_note(root, err, "what waits in a socket comes from one without a name: %s",
			     gck_place_reason(errno)))
		return gck_close_failed(fd);
	if (missing)
		gck_restore_drop_last_made(root);
	return fd;
}

static int send_packet(struct gck_restore *root, const struct gck_packet *packet, int data,
		       off_t at, const struct address *to, struct gck_error *err)
{
	int from = open_sender(root, packet, err);
	char *bytes = malloc(packet->size + 1);
	ssize_t n = -1;

	if (from >= 0)
		set_buffer(from, SO_SNDBUF, INT32_MAX);
	if (from >= 0 && bytes && pread(data, bytes, packet->size, at) == (ssize_t)packet->size)
		n = sendto(from, bytes, packet->size, MSG_DONTWAIT, (const void *)&to->a, to->n);
	free(bytes);
	if (n != (ssize_t)packet->size)
		gck_fail(err, errno, "putting a packet of %llu bytes back: %s",
			 (unsigned long long)packet->size, strerror(errno));
	if (from >= 0)
		close(from);
	return n == (ssize_t)packet->size ? 0 : -1;
}

/* All have their names, and none is connected yet, which might not be the packet's sender. */
static int fill_other(struct gck_restore *root, const struct gck_file *f, struct gck_error *err)
{
	struct address x = address_of_file(f);
	int data, failed;
	off_t at = 0;

	if (f->kind != GCK_FD_SOCKET || !f->npackets ||
	    f != find_file(root, f->kind, f->id, NULL))
		return 0;
	data = memfd_create("gpuckpt", MFD_CLOEXEC);
	if (data < 0)
		return gck_make_failed(err, f, "memfd");
	failed = gck_restore_fill_file(root, &f->data, f->data_size, data,
				       "what waits in a socket", err);
	for (size_t i = 0; i < f->npackets && !failed; i++) {
		failed = send_packet(root, &f->packets[i], data, at, &x, err);
		at += (off_t)f->packets[i].size;
	}
	close(data);
	return failed;
}

static int connect_other(struct gck_restore *root, const struct gck_file *f,
			 struct gck_error *err)
{
	const struct gck_file *peer;
	struct address x;

	if (f->kind != GCK_FD_SOCKET || !f->to || f != find_file(root, f->kind, f->id, NULL))
		return 0;
	peer = find_file(root, f->kind, f->to, NULL);
	x = peer ? address_of_file(peer) : (struct address){0};
	return connect(gck_pair_find(root, f)->end[0], (const void *)&x.a, x.n)
		       ? gck_fail(err, errno, "connecting a unix socket to %s again: %s",
				  peer ? text_of(peer).text : "one that is missing",
				  strerror(errno))
		       : 0;
}

/* ---- all ----------------------------------------------------------------------------------- */

static int with_all(struct gck_restore *root, const struct gck_restore *r,
		    int (*make)(struct gck_restore *, const struct gck_file *, struct gck_error *),
		    struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (make(root, &r->img->files[i], err))
			return -1;
	for (size_t i = 0; i < r->nchildren; i++)
		if (with_all(root, r->children[i], make, err))
			return -1;
	return 0;
}

int gck_restore_sockets(struct gck_restore *root, struct gck_error *err)
{
	static int (*const steps[])(struct gck_restore *, const struct gck_file *,
				    struct gck_error *) = {
		make_connected, make_pair, make_listener, make_other, fill_other, connect_other,
	};

	for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !root->trial; i++)
		if (with_all(root, root, steps[i], err))
			return -1;
	return 0;
}

/* ---- placing ------------------------------------------------------------------------------- */

static int side_of(struct gck_pair *pair, const struct gck_file *f)
{
	for (int side = 0; side < 2; side++) {
		if (!pair->of[side])
			pair->of[side] = f;
		if (pair->of[side] == f)
			return side;
	}
	return -1;
}

/* An end's data is what it can still receive, so it is sent from the other end, whose buffer may
 * not have its size yet. */
static int refill(struct gck_restore *r, const struct gck_file *f, int from, struct gck_error *err)
{
	int size = gck_socket_number(from, SO_SNDBUF), failed;

	set_buffer(from, SO_SNDBUF, INT32_MAX);
	failed = gck_make_refill(r, f, from, err);
	set_buffer(from, SO_SNDBUF, size);
	return failed;
}

int gck_make_socket(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = gck_pair_find(r, f);
	int side;

	if (!pair && !(pair = gck_pair_add(r, f, err)))
		return -1;
	side = side_of(pair, f);
	if (side < 0)
		return gck_fail(err, EINVAL, "the manifest is damaged: a socket has three ends");
	if (set_options(pair->end[side], f, err) ||
	    (!gck_file_has_rights(f) && refill(r, f, pair->end[!side], err)))
		return -1;
	if (gck_make_status(pair->end[side], f, err))
		return -1;
	return dup(pair->end[side]);
}

int gck_make_single(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = gck_pair_find(r, f);

	if (!pair && !(pair = gck_pair_add(r, f, err)))
		return -1;
	return set_options(pair->end[0], f, err) || gck_make_status(pair->end[0], f, err)
		       ? -1
		       : dup(pair->end[0]);
}

/* Only the process that has placed the end first has it in the pair. */
int gck_restore_rights(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		struct gck_pair *pair;

		if (!gck_file_has_rights(f))
			continue;
		pair = gck_pair_find(r, f);
		if (!pair)
			return gck_fail(err, EINVAL, "a socket for what waits in it is not there");
		for (int side = 0; side < 2; side++)
			if (pair->of[side] == f && refill(r, f, pair->end[!side], err))
				return -1;
	}
	return 0;
}

/* They are the highest. */
int gck_restore_close_flight(struct gck_restore *r, struct gck_error *err)
{
	struct gck_image *img = r->img;

	for (; img->nfds && img->fds[img->nfds - 1].in_flight; img->nfds--)
		if (gck_remote_check(gck_remote_call(&r->remote, r->remote.pid, err, SYS_close,
						     (uint64_t)img->fds[img->nfds - 1].fd),
				     err, "a descriptor that is under way cannot be closed"))
			return -1;
	return 0;
}

/* Repeat the shutdowns, after both ends have been refilled. */
int gck_restore_shutdowns(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);

		if (f->shutdown && d &&
		    gck_remote_call(&r->remote, r->remote.pid, err, SYS_shutdown, (uint64_t)d->fd,
				    f->shutdown == 3   ? SHUT_RDWR
				    : f->shutdown == 2 ? SHUT_WR
						       : SHUT_RD))
			return gck_fail(err, EIO, "descriptor %d: shutting its socket down failed",
					d->fd);
	}
	return 0;
}
