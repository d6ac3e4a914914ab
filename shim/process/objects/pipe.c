/* SPDX-License-Identifier: Apache-2.0
 * Pipes, with a name (FIFOs) or without: scan, copy while the rank is held, restore. Also what
 * pipes share with socketpairs: two ends, and bytes that wait between them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/memory/packets.h"
#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ptrace/fd_channel.h"

#define SET_LATER (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME)

/* ---- scan ---------------------------------------------------------------------------------- */

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
	return 0;
}

/* A FIFO is a pipe with a name, as long as it has that. Its inode is another file system's. */
int gck_fd_fifo(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	if (x->flags & O_PATH) {
		gck_obstacle_add(s->f, true, v->object, "close it first",
				 "a named pipe that is not open (O_PATH): %s", v->link);
		return 0;
	}
	x->was = (struct gck_place_file){v->st.st_ino, v->st.st_uid};
	x->path = strdup(v->link);
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	gck_fd_check_name(s, v, x);
	if (!x->unlinked && !gck_rights_allow(x->path, O_RDWR))
		gck_obstacle_add(s->f, true, v->object, "allow it (chmod u+rw)",
				 "a restart cannot open its named pipe again: %s: %s", x->path,
				 strerror(errno));
	if (gck_fd_pipe(s, v, x))
		return -1;
	x->id ^= (uint64_t)v->st.st_dev << 40;
	return 0;
}

static bool may_read(const struct gck_file *x)
{
	return (x->flags & O_ACCMODE) != O_WRONLY;
}

static bool may_write(const struct gck_file *x)
{
	return (x->flags & O_ACCMODE) != O_RDONLY;
}

/* Whether any process has the other end of this pipe. */
static int pipe_peer(struct gck_scan *s, int fd, bool write_end)
{
	struct pollfd p = {.fd = gck_target_fd(s->t, fd), .events = POLLIN};
	char object[32];
	int waits = 0;

	snprintf(object, sizeof object, "fd %d", fd);
	if (p.fd < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
				(int)s->t->pid, strerror(errno));
	poll(&p, 1, 0);
	if (write_end && p.revents & POLLERR && !ioctl(p.fd, FIONREAD, &waits) && waits)
		gck_obstacle_add_passing(s->f, object, "read it",
					 "what waits in a named pipe has no reader");
	close(p.fd);
	return !(p.revents & (write_end ? POLLERR : POLLHUP));
}

static bool is_queued(const struct gck_file *listener, uint64_t id)
{
	for (size_t i = 0; i < listener->nqueue; i++)
		if (listener->queue[i].id == id)
			return true;
	return false;
}

bool gck_file_is_other_end(const struct gck_file *x, const struct gck_file *o)
{
	switch (x->kind) {
	case GCK_FD_PIPE:
		return o->kind == x->kind && o->id == x->id &&
		       (may_read(x) ? may_write(o) : may_read(o));
	case GCK_FD_TERMINAL:
		return o->kind == x->kind && o->id == x->id && o->write_end != x->write_end;
	case GCK_FD_SOCKETPAIR:
		return x->queued ? is_queued(o, x->id) : o->kind == x->kind && o->id == x->id;
	case GCK_FD_SOCKET:
		return o->kind == x->kind && o->id == x->to;
	default:
		return false;
	}
}

/* Where the missing end is. 1: outside the rank; 0: nowhere, or in the rank. */
static int is_elsewhere(struct gck_scan *s, size_t i, const int *fds)
{
	struct gck_file *x = &s->img->files[i];

	for (size_t k = 0; k < s->img->nfiles; k++)
		if ((k != i || x->kind == GCK_FD_PIPE) &&
		    gck_file_is_other_end(x, &s->img->files[k]))
			return 0;
	switch (x->kind) {
	case GCK_FD_PIPE:
		return pipe_peer(s, fds[i], x->write_end);
	case GCK_FD_SOCKETPAIR:
		return x->count || x->queued;
	case GCK_FD_TERMINAL:
		return !x->unlinked && !(x->nterminals && x->terminals->closed);
	default:
		return x->to != 0;
	}
}

static bool has_ends(const struct gck_file *x)
{
	return x->kind == GCK_FD_PIPE || x->kind == GCK_FD_SOCKETPAIR ||
	       x->kind == GCK_FD_SOCKET || x->kind == GCK_FD_TERMINAL;
}

/* Whether the other end may be in a process that is captured, too. */
static bool in_tree(const struct gck_scan *s)
{
	bool runs = s->t->rank;

	for (size_t i = 0; i < s->img->nchildren; i++)
		runs |= s->img->children[i].runs;
	return runs;
}

/* Whether a missing end may be in a queue that nobody has looked through yet. */
static bool may_fly(const struct gck_scan *s)
{
	bool may = false;

	for (size_t i = 0; i < s->img->nfiles; i++)
		may |= s->img->files[i].in_flight > 0;
	return may && !s->held;
}

int gck_fds_check_ends(struct gck_scan *s, const int *fds)
{
	const bool later = in_tree(s) || may_fly(s);

	for (size_t i = 0; i < s->img->nfiles; i++) {
		struct gck_file *x = &s->img->files[i];
		char object[32];
		int result;

		if (!has_ends(x))
			continue;
		result = is_elsewhere(s, i, fds);
		if (result < 0)
			return -1;
		snprintf(object, sizeof(object), "fd %d", fds[i]);
		x->elsewhere = result && later;
		if (result && !x->elsewhere && x->queued)
			gck_obstacle_add_passing(s->f, object, "close it before a checkpoint",
				"another process has not accepted a unix socket's connection");
		else if (result && !x->elsewhere)
			gck_obstacle_add(s->f, true, object, "close it before a checkpoint",
				 "the other end of a %s is in another process",
				 x->kind == GCK_FD_PIPE ? "pipe"
				 : x->kind == GCK_FD_TERMINAL ? "pseudo-terminal" : "unix socket");
	}
	for (size_t i = 0; i < s->img->nfiles; i++)
		if (s->img->files[i].kind == GCK_FD_SOCKETPAIR)
			s->img->files[i].count = 0;
	return 0;
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Read our copy of a pipe. A byte behind its contents tells whether one packet waits or bytes do:
 * a read ends with a packet. The writers' flags do not tell, since they may be other processes'.
 * Where no byte has room, more than one packet waits, or none. */
static int read_copy(const int pair[2], struct gck_packets *p, bool *apart, struct gck_error *err)
{
	bool marked = write(pair[1], "", 1) == 1;

	if (gck_packets_read(p, pair[0], err))
		return -1;
	*apart = p->n > 1;
	if (!marked)
		return 0;
	p->size--;
	if (!--p->v[p->n - 1].size)
		p->n--;
	return 0;
}

/* Duplicate a pipe's bytes into a pipe of ours (tee(2) consumes nothing), and read that. */
static int tee_pipe(int from, size_t size, struct gck_packets *p, bool *apart,
		    struct gck_error *err)
{
	int pair[2], result = -1, room = (int)(size > 2 * GCK_PAGE ? size : 2 * GCK_PAGE);

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK))
		return gck_fail(err, errno, "no pipe: %s", strerror(errno));
	if (fcntl(pair[1], F_SETPIPE_SZ, room) < 0 ||
	    tee(from, pair[1], size, SPLICE_F_NONBLOCK) < 0)
		gck_fail(err, errno, "cannot copy what is in a pipe: %s (is "
			 "fs.pipe-user-pages-soft reached?)", strerror(errno));
	else
		result = read_copy(pair, p, apart, err);
	close(pair[0]);
	close(pair[1]);
	return result;
}

int gck_hold_bytes(struct gck_hold *h, uint32_t i, const char *data, size_t n)
{
	h->img->files[i].data_size = n;
	return gck_frozen_bytes(h->copies, GCK_FROZEN_FILE, i, data, n, h->err);
}

int gck_hold_packets(struct gck_hold *h, uint32_t i, struct gck_packets *p, bool apart)
{
	struct gck_file *x = &h->img->files[i];

	if (apart) {
		x->packets = p->v;
		x->npackets = p->n;
		p->v = NULL;
	}
	return gck_hold_bytes(h, i, p->data, p->size);
}

int gck_hold_pipe(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), bytes = 0, result = 0;
	struct gck_packets p = {0};
	bool apart = false;

	if (fd < 0 || ioctl(fd, FIONREAD, &bytes))
		result = gck_fail(h->err, errno, "cannot look into a pipe: %s", strerror(errno));
	else if (bytes)
		result = tee_pipe(fd, x->pipe_size, &p, &apart, h->err);
	if (!result && p.size != (size_t)bytes)
		result = gck_fail(h->err, EAGAIN, "cannot copy the %d bytes in a pipe; try again",
				  bytes);
	if (!result && bytes)
		result = gck_hold_packets(h, i, &p, apart);
	gck_packets_free(&p);
	if (fd >= 0)
		close(fd);
	return result;
}

/* ---- restore ------------------------------------------------------------------------------- */

static bool has_id(const struct gck_file *f)
{
	return f->kind == GCK_FD_PIPE || f->kind == GCK_FD_SOCKETPAIR || f->kind == GCK_FD_QUEUE;
}

struct gck_pair *gck_pair_find(struct gck_restore *r, const struct gck_file *f)
{
	r = r->root;
	for (size_t i = 0; i < r->npairs; i++)
		if (r->pairs[i].kind == f->kind &&
		    (has_id(f) ? r->pairs[i].id == f->id : r->pairs[i].of[0] == f))
			return &r->pairs[i];
	return NULL;
}

struct gck_pair *gck_pair_keep(struct gck_restore *r, const struct gck_pair *made,
			       struct gck_error *err)
{
	struct gck_pair *more;

	r = r->root;
	more = reallocarray(r->pairs, r->npairs + 1, sizeof *more);
	if (!more) {
		gck_fail(err, ENOMEM, "no memory for %zu pipes", r->npairs + 1);
		for (int i = 0; i < 2; i++)
			if (made->end[i] >= 0)
				close(made->end[i]);
		return NULL;
	}
	r->pairs = more;
	r->pairs[r->npairs] = *made;
	return &r->pairs[r->npairs++];
}

/* Make a FIFO that is missing. */
static int make_fifo(struct gck_restore *r, const struct gck_file *f)
{
	struct gck_place p;
	struct stat st;
	int failed;

	if (gck_place_find(f->path, &p))
		return -1;
	failed = mknodat(p.dir, p.name, S_IFIFO | 0600, 0) ||
		 fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) ||
		 gck_restore_note_made(r, f->path, &st) ||
		 fchmodat(p.dir, p.name, f->mode & 07777, 0);
	gck_place_leave(&p);
	return failed ? -1 : 0;
}

/* Both ends are one descriptor for reading and writing, which no open(2) waits for; the files are
 * opened from it. */
static int open_fifo(struct gck_restore *r, const struct gck_file *f, struct gck_pair *pair)
{
	int at = gck_place_open(f->path, &f->was, NULL);
	struct stat st;

	if (at < 0 && errno == ENOENT && !make_fifo(r, f))
		at = gck_place_open(f->path, &f->was, NULL);
	if (at < 0)
		return -1;
	if (!fstat(at, &st) && S_ISFIFO(st.st_mode))
		pair->end[0] = gck_rights_reopen(at, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	else
		errno = EEXIST;
	close(at);
	if (pair->end[0] < 0)
		return -1;
	pair->given[0] = pair->given[1] = true;
	pair->end[1] = fcntl(pair->end[0], F_DUPFD_CLOEXEC, 0);
	if (pair->end[1] < 0)
		return gck_close_failed(pair->end[0]);
	return 0;
}

struct gck_pair *gck_pair_add(struct gck_restore *r, const struct gck_file *f,
			      struct gck_error *err)
{
	struct gck_pair pair = {.kind = f->kind, .id = f->id, .end = {-1, -1}};
	int type = f->sock_type | SOCK_CLOEXEC, failed;

	if (f->kind == GCK_FD_PIPE && f->path && !f->unlinked && !r->root->trial)
		failed = open_fifo(r, f, &pair);
	else if (f->kind == GCK_FD_PIPE)
		failed = pipe2(pair.end, O_CLOEXEC) || fchmod(pair.end[0], f->mode & 07777);
	else if (f->kind == GCK_FD_SOCKETPAIR)
		failed = socketpair(AF_UNIX, type, 0, pair.end);
	else
		failed = (pair.end[0] = socket(AF_UNIX, type, 0)) < 0;
	if (failed) {
		gck_make_failed(err, f, f->kind == GCK_FD_PIPE ? "pipe" : "unix socket");
		return NULL;
	}
	return gck_pair_keep(r, &pair, err);
}

static int put_bytes(struct gck_restore *r, const struct gck_file *f, int from, int into)
{
	ssize_t n = 1;

	for (uint64_t done = 0; n > 0 && done < f->data_size; done += (uint64_t)n) {
		n = pread(from, r->buffer, GCK_CHUNK_MAX, (off_t)done);
		if (n > 0)
			n = write(into, r->buffer, (size_t)n);
	}
	return n <= 0 ? -1 : 0;
}

bool gck_file_has_rights(const struct gck_file *f)
{
	bool has = false;

	for (size_t i = 0; i < f->npackets; i++)
		has |= f->packets[i].nrights > 0;
	return has;
}

static void drop_rights(int *v, size_t n)
{
	int error = errno;

	for (size_t i = 0; i < n; i++)
		close(v[i]);
	free(v);
	errno = error;
}

/* Copies of ours of all descriptors that come with its packets. -1 with errno. */
static int take_rights(const struct gck_restore *r, const struct gck_file *f, int **v, size_t *n)
{
	struct gck_error why;

	for (size_t i = 0; i < f->npackets; i++)
		for (size_t k = 0; k < f->packets[i].nrights; k++) {
			int *slot = gck_grow(v, n, sizeof *slot, &why);

			if (!slot)
				return errno = ENOMEM, -1;
			*slot = gck_restore_take(r, f->packets[i].rights[k].fd, &why);
			if (*slot < 0) {
				(*n)--;
				return -1;
			}
		}
	return 0;
}

/* Write back what was written but not read, without blocking. In a pipe, O_DIRECT keeps packets
 * apart. */
static int put_back(struct gck_restore *r, const struct gck_file *f, int from, int into)
{
	int flags = fcntl(into, F_GETFL);
	int apart = f->kind == GCK_FD_PIPE && f->npackets ? O_DIRECT : 0;
	int *rights = NULL, failed;
	size_t n = 0;

	if (flags < 0 || fcntl(into, F_SETFL, flags | O_NONBLOCK | apart))
		return -1;
	failed = take_rights(r, f, &rights, &n);
	if (!failed && f->npackets)
		failed = gck_packets_put(f->packets, f->npackets, from, into, rights);
	else if (!failed)
		failed = put_bytes(r, f, from, into);
	drop_rights(rights, n);
	return failed ? -1 : fcntl(into, F_SETFL, flags);
}

int gck_make_refill(struct gck_restore *r, const struct gck_file *f, int into,
		    struct gck_error *err)
{
	int failed, staged;

	if (!f->data_size && !f->npackets)
		return 0;
	staged = memfd_create("gpuckpt", MFD_CLOEXEC);
	if (staged < 0)
		return gck_make_failed(err, f, "memfd");
	failed = gck_restore_fill_file(r, &f->data, f->data_size, staged, "what waits in a pipe",
				       err);
	if (!failed && put_back(r, f, staged, into))
		failed = gck_fail(err, errno, "putting %llu bytes back into a pipe or socket: %s",
				  (unsigned long long)f->data_size, strerror(errno));
	close(staged);
	return failed;
}

int gck_make_status(int fd, const struct gck_file *f, struct gck_error *err)
{
	return fcntl(fd, F_SETFL, (int)(f->flags & SET_LATER)) ? gck_make_failed(err, f, "fcntl")
							       : 0;
}

/* The first open file of an end is that of the pipe; the others opened it again, through /proc. */
static int make_end(struct gck_pair *pair, const struct gck_file *f)
{
	int side = f->write_end ? 1 : 0, mode = (int)f->flags & O_ACCMODE;
	char path[32];

	if (!pair->given[side] && mode != O_RDWR) {
		pair->given[side] = true;
		return fcntl(pair->end[side], F_DUPFD_CLOEXEC, 0);
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", pair->end[side]);
	return open(path, mode | O_CLOEXEC);
}

int gck_make_pipe(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair *pair = gck_pair_find(r, f);
	int fd;

	if (!pair && !(pair = gck_pair_add(r, f, err)))
		return -1;
	if (f->pipe_size && fcntl(pair->end[1], F_GETPIPE_SZ) != (int)f->pipe_size &&
	    fcntl(pair->end[1], F_SETPIPE_SZ, (int)f->pipe_size) < 0)
		return gck_make_failed(err, f, "setting the size of a pipe");
	if (!pair->filled && gck_make_refill(r, f, pair->end[1], err))
		return -1;
	pair->filled |= f->data_size > 0;
	fd = make_end(pair, f);
	if (fd < 0)
		return gck_make_failed(err, f, "a pipe's end");
	return gck_make_status(fd, f, err) ? gck_close_failed(fd) : fd;
}
