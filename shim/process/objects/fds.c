/* SPDX-License-Identifier: Apache-2.0
 * The table of descriptors: which share an open file description, which are the task's own standard
 * input, output and error, and the kind of each other one. Each kind has a file of its own. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/place/owner.h"
#include "shim/process/memory/memory.h"
#include "shim/process/memory/external_files.h"
#include "shim/process/objects/file_rights.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ptrace/fd_channel.h"
#include "shim/process/ring/ring.h"
#include "shim/process/terminal/terminal.h"
#include "shim/process/watch/fanotify.h"
#include "shim/process/watch/inotify.h"

/* ---- scan ---------------------------------------------------------------------------------- */

struct walk {
	struct gck_scan *s;
	struct stat *stats;      /* of img->files, by index */
	int *fds;                /* one descriptor of each file */
	uint64_t stdio[3][2];    /* device and inode of the task's own 0..2 */
};

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static void view_free(struct gck_fd_view *v)
{
	free(v->link);
	free(v->info);
}

/* 1: the descriptor was closed meanwhile. */
static int view_open(struct gck_scan *s, int fd, struct gck_fd_view *v)
{
	struct gck_target_place at = gck_target_at(s->t, fd);
	char name[32];

	*v = (struct gck_fd_view){.fd = fd};
	snprintf(v->object, sizeof(v->object), "fd %d", fd);
	snprintf(name, sizeof(name), "fd/%d", at.fd);
	v->link = gck_proc_link(at.proc, name, s->err);
	if (v->link && gck_owner_fstatat(at.proc, name, &v->st, 0) == 0) {
		snprintf(name, sizeof(name), "fdinfo/%d", at.fd);
		v->info = gck_proc_read(at.proc, name, NULL, s->err);
	}
	if (v->info) {
		v->flags = (uint32_t)gck_proc_number(v->info, "flags:", 8, 0);
		return 0;
	}
	view_free(v);
	return errno == ENOENT ? 1 : gck_fail(s->err, errno, "cannot look at fd %d of process %d: "
					      "%s", fd, (int)s->t->pid, strerror(errno));
}

/* The index of the file with this open file description. -1: none, -2: failed. */
static int find_same(struct walk *w, const struct gck_fd_view *v)
{
	struct gck_target_place own = gck_target_at(w->s->t, v->fd);

	for (size_t i = 0; i < w->s->img->nfiles; i++) {
		struct gck_target_place at = gck_target_at(w->s->t, w->fds[i]);
		long order;

		if (w->stats[i].st_ino != v->st.st_ino || w->stats[i].st_dev != v->st.st_dev)
			continue;
		order = syscall(SYS_kcmp, at.pid, own.pid, KCMP_FILE, at.fd, own.fd);
		if (order == 0)
			return (int)i;
		if (order < 0) {
			gck_fail(w->s->err, errno, "cannot compare descriptors of process %d: %s "
				 "(the kernel needs CONFIG_KCMP)", (int)w->s->t->pid,
				 strerror(errno));
			return -2;
		}
	}
	return -1;
}

/* Find the task's own descriptors 0 to 2: those that the preload's constructor recorded, or else
 * the current ones. */
static void find_stdio(struct walk *w)
{
	const struct gck_target *t = w->s->t;
	uint64_t known = 0;

	memcpy(w->stdio, t->shim->stdio, sizeof(w->stdio));
	for (int n = 0; n < 3; n++)
		known |= w->stdio[n][0] | w->stdio[n][1];
	for (int n = 0; n < 3 && !known; n++) {
		struct stat st;
		char name[16];

		snprintf(name, sizeof(name), "fd/%d", n);
		if (fstatat(t->proc, name, &st, 0))
			continue;
		w->stdio[n][0] = st.st_dev;
		w->stdio[n][1] = st.st_ino;
	}
}

/* Which of the task's own descriptors this is, or -1. A device such as /dev/null counts only under
 * its own number, since any program may have opened it again. */
static int stdio_of(const struct walk *w, const struct gck_fd_view *v)
{
	bool tty = S_ISCHR(v->st.st_mode) && (starts(v->link, "/dev/pts/") ||
					       starts(v->link, "/dev/tty"));

	for (int i = -1; i < 3; i++) {
		int n = i < 0 ? v->fd : i;

		if (n > 2 || !w->stdio[n][1] || w->stdio[n][1] != v->st.st_ino ||
		    w->stdio[n][0] != v->st.st_dev)
			continue;
		if (!S_ISCHR(v->st.st_mode) || tty || v->fd <= 2)
			return n;
	}
	return -1;
}

static int classify(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	if (gck_queue_is(s, v))
		return gck_fd_queue(s, v, x);
	if (starts(v->link, "anon_inode:"))
		return gck_fd_anonymous(s, v, x);
	if (starts(v->link, "socket:"))
		return gck_fd_socket(s, v, x);
	if (starts(v->link, "pipe:"))
		return gck_fd_pipe(s, v, x);
	if (starts(v->link, "/memfd:"))
		return gck_fd_memfd(s, v, x);
	if (starts(v->link, "/proc/"))
		return gck_fd_proc(s, v, x);
	if (S_ISREG(v->st.st_mode) || S_ISDIR(v->st.st_mode))
		return gck_fd_file(s, v, x);
	if (gck_terminal_is(&v->st))
		return gck_terminal_scan(s, v->fd, &v->st, x);
	if (S_ISCHR(v->st.st_mode))
		return gck_fd_device(s, v, x);
	if (S_ISFIFO(v->st.st_mode))
		return gck_fd_fifo(s, v, x);
	gck_obstacle_add(s->f, true, v->object, "close it first",
			 "this kind of file is not carried: %s", v->link);
	return 0;
}

static int grow(struct walk *w, size_t n)
{
	struct stat *stats = reallocarray(w->stats, n, sizeof *stats);
	int *fds = reallocarray(w->fds, n, sizeof *fds);

	w->stats = stats ? stats : w->stats;
	w->fds = fds ? fds : w->fds;
	return stats && fds ? 0 : gck_fail(w->s->err, ENOMEM, "out of memory for the descriptors");
}

/* Add a new open file description. */
static int add_file(struct walk *w, const struct gck_fd_view *v)
{
	struct gck_image *img = w->s->img;
	size_t n = img->nfiles;
	bool own;
	int failed = 0;
	struct gck_file *x = gck_grow(&img->files, &img->nfiles, sizeof(*x), w->s->err);

	if (!x || grow(w, img->nfiles))
		return -1;
	x->flags = v->flags & ~(uint32_t)(O_CLOEXEC | O_ASYNC);
	x->offset = (int64_t)gck_proc_number(v->info, "pos:", 10, 0);
	x->object = -1;
	x->mode = v->st.st_mode;
	x->device = v->st.st_dev;
	x->inode = v->st.st_ino;
	w->stats[n] = v->st;
	w->fds[n] = v->fd;
	x->peer = stdio_of(w, v);
	own = x->peer >= 0;
	if (gck_fd_owner(w->s, v, x))
		return -1;
	if (!own) {
		x->peer = 0;
		failed = classify(w->s, v, x);
	} else {
		x->kind = GCK_FD_STDIO;
		if (x->peer == 0)
			gck_fd_input(w->s, v, x);
		else
			failed = gck_fd_output(w->s, v, x);
		failed = failed || gck_terminal_scan_own(w->s, v->fd, &v->st, x);
	}
	return failed || gck_fd_locks(w->s, v, own, &img->files[n]) ? -1 : (int)n;
}

static int add_fd(struct walk *w, int fd, bool in_flight)
{
	struct gck_image *img = w->s->img;
	struct gck_fd_view v;
	struct gck_fd *slot;
	int result = view_open(w->s, fd, &v), file;

	if (result)
		return result < 0 ? -1 : 0;
	file = find_same(w, &v);
	/* 0, 1 and 2 may share one description, and are three descriptors of the new task */
	if (file >= 0 && fd <= 2 && img->files[file].kind == GCK_FD_STDIO &&
	    img->files[file].peer != fd && stdio_of(w, &v) == fd)
		file = -1;
	if (file == -1)
		file = add_file(w, &v);
	slot = file < 0 ? NULL : gck_grow(&img->fds, &img->nfds, sizeof(*slot), w->s->err);
	if (slot)
		*slot = (struct gck_fd){.fd = fd, .cloexec = (v.flags & O_CLOEXEC) != 0,
					.file = (uint32_t)file, .in_flight = in_flight};
	view_free(&v);
	return slot ? 0 : -1;
}

/* A restart sets these when the process runs, which has none of their descriptors then. */
static void check_in_flight(struct gck_scan *s, size_t from)
{
	for (size_t i = from; i < s->img->nfiles; i++) {
		const struct gck_file *x = &s->img->files[i];
		const char *what = gck_file_has_lease(x) ? "a file with a lease" : NULL;

		if (x->kind == GCK_FD_EPOLL || x->kind == GCK_FD_TIMERFD ||
		    x->kind == GCK_FD_INOTIFY || x->kind == GCK_FD_FANOTIFY)
			what = "an epoll, timerfd, inotify or fanotify";
		if (x->kind == GCK_FD_QUEUE)
			what = "a message queue";
		if (what)
			gck_obstacle_add_passing(s->f, "process", "receive it first",
						 "%s is under way in a unix socket", what);
	}
}

/* Descriptors in the queues of sockets, also of those that are in a queue themselves. */
static int add_flight(struct walk *w, int first)
{
	struct gck_scan *s = w->s;
	const struct gck_flight *flight = s->t->flight;
	size_t known = s->img->nfiles;

	for (size_t i = 0; i < s->img->nfiles; i++) {
		size_t n = flight->n;

		if (s->img->files[i].in_flight && gck_socket_fly(s, i, w->fds[i], first))
			return -1;
		for (; n < flight->n; n++)
			if (add_fd(w, first + (int)n, true))
				return -1;
	}
	check_in_flight(s, known);
	return 0;
}

static int share(struct walk *w, size_t i)
{
	struct gck_file *x = &w->s->img->files[i];
	struct gck_object *o;

	x->kind = GCK_FD_MEMFD;
	x->object = gck_scan_object(w->s, w->stats[i].st_dev, w->stats[i].st_ino, "");
	if (x->object < 0)
		return -1;
	o = &w->s->img->objects[x->object];
	o->size = x->size;
	o->mode = w->stats[i].st_mode & 07777;
	o->mtime_ns = gck_mtime_ns(&w->stats[i]);
	return 0;
}

/* A file without a name that was opened more than once becomes one object in memory. */
static int join_unlinked(struct walk *w)
{
	const struct gck_file *x = w->s->img->files;

	for (size_t i = 0; i < w->s->img->nfiles; i++)
		for (size_t k = 0; k < i && x[i].unlinked && x[i].kind != GCK_FD_PIPE &&
				   x[i].kind != GCK_FD_QUEUE; k++)
			if (x[k].unlinked && w->stats[k].st_ino == w->stats[i].st_ino &&
			    w->stats[k].st_dev == w->stats[i].st_dev &&
			    (share(w, k) || share(w, i)))
				return -1;
	return 0;
}

struct contents {
	uint64_t bytes, largest;
	size_t files;
	const char *name; /* of the largest */
};

static void add_content(struct contents *c, uint64_t bytes, const char *name)
{
	if (!bytes)
		return;
	c->bytes += bytes;
	c->files++;
	if (bytes > c->largest) {
		c->largest = bytes;
		c->name = name ? name : "a file without a name";
	}
}

/* Refuse more bytes of file contents than the option files= allows: of descriptors, and of files
 * that the process has made, which are the objects from `made` on. */
static void check_budget(struct gck_scan *s, size_t made)
{
	struct contents c = { 0 };

	for (size_t i = 0; i < s->img->nfiles; i++)
		add_content(&c, gck_file_carried(&s->img->files[i]), s->img->files[i].path);
	for (size_t i = made; i < s->img->nobjects; i++)
		add_content(&c, s->img->objects[i].size, s->img->objects[i].name);
	if (c.bytes > s->o->files)
		gck_obstacle_add(s->f, true, c.name, "allow more with files=SIZE, or remove files",
				 "with %zu other files that are copied it has %llu bytes: more "
				 "than files=%llu allows", c.files - 1,
				 (unsigned long long)c.bytes, (unsigned long long)s->o->files);
}

/* While the process runs, it may close a descriptor at which the scan looks, which begins again. */
static bool was_closed(struct gck_scan *s)
{
	if (s->held || s->err->code != EBADF)
		return false;
	gck_obstacle_add_passing(s->f, "process", "try again",
				 "it has closed a descriptor meanwhile");
	return true;
}

int gck_scan_fds(struct gck_scan *s)
{
	struct walk w = {.s = s};
	int *list = NULL;
	size_t n = 0;
	int result = -1, first = 0;
	size_t made;

	gck_flight_close(s->t);
	s->t->flight->n = 0;
	if (gck_proc_list(s->t->proc, "fd", &list, &n, s->err))
		return -1;
	find_stdio(&w);
	for (size_t i = 0; i < n; i++) {
		first = list[i] < first ? first : list[i] + 1;
		if (list[i] != s->t->shim->link_fd &&
		    !gck_exclusions_fd(&s->t->excluded, list[i]) && add_fd(&w, list[i], false))
			goto out;
	}
	if (s->held && add_flight(&w, first))
		goto out;
	gck_rings_check_maps(s);
	if (gck_fds_check_epolls(s, w.fds) || gck_fds_check_ends(s, w.fds))
		goto out;
	if (join_unlinked(&w))
		goto out;
	made = s->img->nobjects;
	if (gck_scan_made(s))
		goto out;
	check_budget(s, made);
	result = gck_scan_file_rights(s);
out:
	free(list);
	free(w.stats);
	free(w.fds);
	return result && was_closed(s) ? 0 : result;
}

/* ---- hold ---------------------------------------------------------------------------------- */

static int hold_one(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];

	if (gck_file_is_memory(x) ? !h->memory : !h->own)
		return 0;
	if (x->kind == GCK_FD_FILE && (x->whole || x->unlinked))
		return gck_hold_file(h, i);
	if (x->kind == GCK_FD_PIPE && !x->write_end)
		return gck_hold_pipe(h, i);
	if (x->kind == GCK_FD_SOCKETPAIR ||
	    (x->kind == GCK_FD_SOCKET && x->sock_type == SOCK_DGRAM))
		return gck_hold_socket(h, i);
	if (x->kind == GCK_FD_QUEUE)
		return gck_hold_queue(h, i);
	if (x->kind == GCK_FD_RING)
		return gck_hold_ring(h, i);
	if (x->kind == GCK_FD_TERMINAL && x->nterminals)
		return gck_terminal_hold(h, x->terminals, gck_image_fd_of(h->img, i));
	return 0;
}

int gck_hold_files(struct gck_hold *h)
{
	for (uint32_t i = 0; i < h->img->nfiles; i++)
		if (hold_one(h, i))
			return gck_fail_in(h->err, "fd %d", gck_image_fd_of(h->img, i));
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Open the image's file i in this process, as the rank had it. A descriptor, or -1. epoll's entries
 * and timers are set later, in the target. */
static int make(struct gck_restore *r, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &r->img->files[i];

	switch (f->kind) {
	case GCK_FD_FILE:
		return f->unlinked ? gck_make_unlinked(r, f, err) : gck_make_path(f, err);
	case GCK_FD_DIR:
	case GCK_FD_DEVICE:
		return gck_make_path(f, err);
	case GCK_FD_PIPE:
		return gck_make_pipe(r, f, err);
	case GCK_FD_SOCKETPAIR:
		return gck_make_socket(r, f, err);
	case GCK_FD_LISTENER:
	case GCK_FD_SOCKET:
		return gck_make_single(r, f, err);
	case GCK_FD_TERMINAL:
		return gck_terminal_open(r, f, err);
	case GCK_FD_EVENTFD:
		return gck_make_eventfd(f, err);
	case GCK_FD_EPOLL:
		return gck_make_epoll(f, err);
	case GCK_FD_TIMERFD:
		return gck_make_timerfd(f, err);
	case GCK_FD_SIGNALFD:
		return gck_make_signalfd(f, err);
	case GCK_FD_PIDFD:
		return gck_make_pidfd(r, f, err);
	case GCK_FD_PROC:
		return gck_make_proc(r, f, err);
	case GCK_FD_INOTIFY:
		return gck_inotify_make(f, err);
	case GCK_FD_FANOTIFY:
		return gck_fanotify_make(f, err);
	case GCK_FD_QUEUE:
		return gck_make_queue(r, f, err);
	case GCK_FD_MEMFD:
		return gck_make_reopen(r->objects[f->object], f, err);
	case GCK_FD_RING:
	case GCK_FD_STDIO:
		break;
	}
	return gck_fail(err, EINVAL, "file %zu of the image is of an unknown kind", i);
}

/* The place of a descriptor that several processes share; NULL: it is not shared. */
static int *shared_place(struct gck_restore *r, size_t i)
{
	uint32_t number = r->img->files[i].shared;

	return number && number <= r->root->nshared ? &r->root->shared[number - 1] : NULL;
}

static int place_one(struct gck_restore *r, size_t i, struct gck_error *err)
{
	int *shared = shared_place(r, i), fd, failed;

	if (r->img->files[i].kind == GCK_FD_STDIO)
		return gck_terminal_set_own(r, &r->img->files[i], err) ||
				       gck_restore_place(r, i, -1, err) ? -1 : 0;
	if (r->img->files[i].kind == GCK_FD_RING)
		return gck_ring_place(r, i, err);
	fd = shared && *shared >= 0 ? *shared : make(r, i, err);
	if (fd < 0)
		return -1;
	failed = gck_restore_place(r, i, fd, err);
	if (shared)
		*shared = fd;
	else
		close(fd);
	return failed;
}

const struct gck_fd *gck_restore_first_fd(const struct gck_restore *r, size_t file)
{
	for (size_t i = 0; i < r->img->nfds; i++)
		if (r->img->fds[i].file == file)
			return &r->img->fds[i];
	return NULL;
}

void gck_restore_close_pairs(struct gck_restore *r)
{
	for (size_t i = 0; i < r->npairs; i++) {
		for (int side = 0; side < 2; side++)
			if (r->pairs[i].end[side] >= 0)
				close(r->pairs[i].end[side]);
	}
	r->npairs = 0;
}

int gck_restore_fds(struct gck_restore *r, struct gck_error *err)
{
	int failed = 0;

	for (size_t i = 0; i < r->img->nfiles && !failed; i++)
		if (!r->deferred[i])
			failed = place_one(r, i, err);
	return failed || gck_restore_epolls(r, err) ? -1 : 0;
}

/* Place the files whose names were missing until gck_restore_files made them again. */
int gck_restore_deferred(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (r->deferred[i]) {
			r->deferred[i] = false;
			if (place_one(r, i, err))
				return -1;
		}
	return 0;
}
