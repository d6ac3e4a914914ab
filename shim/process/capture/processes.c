/* SPDX-License-Identifier: Apache-2.0
 * The rank's descendants in a capture: each is one more capture, of the same instant. They are
 * found and held after their parent, so that none is made meanwhile. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <linux/kcmp.h>
#include <stddef.h>

#include "shim/process/capture/capture.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/tree/tree.h"

/* ---- before the rank is held --------------------------------------------------------------- */

int gck_scan_descendants(const struct gck_target *parent, const struct gck_image *img,
			 const struct gck_options *o, struct gck_obstacles *f,
			 struct gck_error *err)
{
	for (size_t i = 0; i < img->nchildren; i++) {
		struct gck_target t;
		struct gck_error why;

		if (!img->children[i].runs)
			continue;
		if (gck_target_open_child(&t, parent, img->children[i].rpid, &why)) {
			gck_obstacle_add_passing(f, "process", "try again", "%s", why.text);
			continue;
		}
		if (gck_scan_whole(&t, o, f, err)) {
			bool ended = gck_process_ended(t.pid);

			gck_target_close(&t);
			if (!ended)
				return -1;
			continue;
		}
		gck_target_close(&t);
	}
	return 0;
}

static void check_stand_ins(const struct gck_target *t, struct gck_obstacles *f)
{
	if (t->shim->mpi_state || t->shim->cuda_state)
		gck_obstacle_add_passing(f, "process", "wait until it has ended",
					 "it has a descendant process with MPI or CUDA: %d",
					 (int)t->pid);
}

int gck_scan_whole(const struct gck_target *t, const struct gck_options *o,
		   struct gck_obstacles *f, struct gck_error *err)
{
	struct gck_maps flags = {0};
	struct gck_scan s = {.t = t, .o = o, .f = f, .err = err, .flags = &flags};
	int result;

	s.img = calloc(1, sizeof(*s.img));
	if (!s.img)
		return gck_fail(err, ENOMEM, "out of memory");
	if (t->rank)
		check_stand_ins(t, f);
	result = gck_smaps_read(t->proc, &flags, err) || gck_scan_node(&s) ||
		 gck_scan_process(&s) || gck_scan_maps(&s) || gck_scan_fds(&s) ||
		 gck_scan_descendants(t, s.img, o, f, err);
	gck_maps_free(&flags);
	gck_maps_free(&s.maps);
	gck_image_free(s.img);
	return result ? -1 : 0;
}

/* ---- holding ------------------------------------------------------------------------------- */

/* An abstract name, at which helpers that are summoned connect. */
static int listen_for_helpers(struct gck_capture *c, struct gck_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (c->listener >= 0)
		return 0;
	snprintf(c->link_name, sizeof c->link_name, "gpuckpt-tree-%d-%d", (int)getpid(),
		 (int)c->t.pid);
	memcpy(a.sun_path + 1, c->link_name, strlen(c->link_name));
	c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->listener < 0 ||
	    bind(c->listener, (struct sockaddr *)&a,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->link_name))) ||
	    listen(c->listener, 16))
		return gck_fail(err, errno, "no socket for descendants: %s", strerror(errno));
	return 0;
}

static struct gck_capture *add(struct gck_capture *parent, pid_t pid, struct gck_error *err)
{
	struct gck_capture **more = reallocarray(parent->children, parent->nchildren + 1,
						 sizeof(*more));
	struct gck_capture *c;

	if (more)
		parent->children = more;
	c = more ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		gck_fail(err, ENOMEM, "out of memory for a descendant");
		return NULL;
	}
	c->o = parent->o;
	c->life = c->listener = c->device[0] = c->device[1] = c->dirty.uffd = -1;
	c->root = parent->root;
	if (gck_target_open_child(&c->t, &parent->t, pid, err)) {
		free(c);
		return NULL;
	}
	parent->children[parent->nchildren++] = c;
	return c;
}

static int prepare(struct gck_capture *c, struct gck_error *err)
{
	return gck_target_refresh(&c->t, err) || listen_for_helpers(c->root, err) ||
	       gck_summon(&c->t, &c->held, c->root->link_name, c->root->listener, err) ||
	       gck_capture_prepare(c, err) ? -1 : 0;
}

/* Hold a child and all below it. One that has ended meanwhile is a child like those that had ended
 * before. */
static int hold(struct gck_capture *parent, pid_t pid, int timeout_ms, struct gck_error *err)
{
	struct gck_capture *c = add(parent, pid, err);

	if (!c)
		return gck_process_ended(pid) ? 0 : -1;
	gck_threads_wait_transfers(&c->t);
	if (gck_threads_hold(&c->held, &c->t, timeout_ms, err)) {
		if (!gck_process_ended(pid))
			return -1;
		parent->nchildren--;
		gck_capture_close(c);
		return 0;
	}
	return prepare(c, err) || gck_tree_hold(c, timeout_ms, err) ? -1 : 0;
}

int gck_tree_hold(struct gck_capture *c, int timeout_ms, struct gck_error *err)
{
	struct gck_image list = {0};
	struct gck_scan s = {.t = &c->t, .img = &list, .f = &(struct gck_obstacles){0}, .err = err};
	int result = gck_scan_children(&s);

	for (size_t i = 0; i < list.nchildren && !result; i++)
		if (list.children[i].runs)
			result = hold(c, list.children[i].rpid, timeout_ms, err);
	free(list.children);
	return result ? gck_fail_in(err, "a descendant of process %d", (int)c->t.pid) : 0;
}

/* ---- what descendants share ---------------------------------------------------------------- */

static bool may_share(const struct gck_file *f)
{
	return f->kind != GCK_FD_EPOLL && f->kind != GCK_FD_TIMERFD && f->kind != GCK_FD_STDIO &&
	       f->kind != GCK_FD_MEMFD;
}

static int same(const struct gck_capture *a, size_t i, const struct gck_capture *b, size_t k)
{
	return (int)syscall(SYS_kcmp, a->t.pid, b->t.pid, KCMP_FILE,
			    gck_image_fd_of(a->img, (uint32_t)i),
			    gck_image_fd_of(b->img, (uint32_t)k));
}

static int refuse(const struct gck_capture *c, size_t i, const char *what, struct gck_error *err)
{
	return gck_fail(err, EAGAIN, "fd %d of process %d: %s; close it in one of them, or wait "
			"until it has ended", gck_image_fd_of(c->img, (uint32_t)i), (int)c->t.pid,
			what);
}

/* Number files that two processes have by inheritance. b comes after a. */
static int relate_file(struct gck_capture *a, size_t i, struct gck_capture *b, size_t k,
		       struct gck_error *err)
{
	struct gck_file *x = &a->img->files[i], *y = &b->img->files[k];
	bool pair = x->kind == GCK_FD_PIPE || x->kind == GCK_FD_SOCKETPAIR;
	int order;

	if (x->kind != y->kind || x->kind == GCK_FD_STDIO)
		return 0;
	order = same(a, i, b, k);
	if (order < 0)
		return gck_fail(err, errno, "cannot compare descriptors: %s", strerror(errno));
	if (pair && order && x->id == y->id &&
	    (x->kind != GCK_FD_PIPE || x->write_end != y->write_end))
		x->elsewhere = y->elsewhere = false;
	if (order) {
		if (x->kind == GCK_FD_PIPE && x->id == y->id && x->write_end == y->write_end)
			return refuse(b, k, "an end of a pipe was opened twice", err);
		return 0;
	}
	if (!may_share(x))
		return refuse(b, k, "an object that is shared with another process", err);
	if (!x->shared)
		x->shared = ++a->root->nshared;
	if (!y->shared)
		y->shared = x->shared;
	return 0;
}

static int relate_memory(const struct gck_capture *a, const struct gck_capture *b,
			 struct gck_error *err)
{
	for (size_t i = 0; i < a->img->nobjects; i++)
		for (size_t k = 0; k < b->img->nobjects; k++)
			if (a->img->objects[i].inode == b->img->objects[k].inode &&
			    a->img->objects[i].device == b->img->objects[k].device)
				return gck_fail(err, ENOTSUP, "processes %d and %d share memory "
						"%s; use processes that do not", (int)a->t.pid,
						(int)b->t.pid, a->img->objects[i].name);
	return 0;
}

static int relate(struct gck_capture *a, struct gck_capture *b, struct gck_error *err)
{
	for (size_t i = 0; i < a->img->nfiles; i++)
		for (size_t k = 0; k < b->img->nfiles; k++)
			if (relate_file(a, i, b, k, err))
				return -1;
	return relate_memory(a, b, err);
}

struct list {
	struct gck_capture **v;
	size_t n;
};

static int flatten(struct gck_capture *c, struct list *all, struct gck_error *err)
{
	struct gck_capture **more = reallocarray(all->v, all->n + 1, sizeof(*more));

	if (!more)
		return gck_fail(err, ENOMEM, "out of memory for descendants");
	all->v = more;
	all->v[all->n++] = c;
	for (size_t i = 0; i < c->nchildren; i++)
		if (flatten(c->children[i], all, err))
			return -1;
	return 0;
}

static int check_ends(const struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nfiles; i++)
		if (c->img->files[i].elsewhere)
			return refuse(c, i, "the other end is in a process that is no descendant "
				      "of the rank", err);
	return 0;
}

int gck_tree_relate(struct gck_capture *root, struct gck_error *err)
{
	struct list all = {0};
	int result = flatten(root, &all, err);

	for (size_t b = 1; b < all.n && !result; b++)
		for (size_t a = 0; a < b && !result; a++)
			result = relate(all.v[a], all.v[b], err);
	for (size_t i = 0; i < all.n && !result; i++)
		result = check_ends(all.v[i], err);
	free(all.v);
	return result;
}

/* ---- the image ----------------------------------------------------------------------------- */

int gck_tree_join(struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->nchildren; i++) {
		struct gck_image *x;

		if (gck_tree_join(c->children[i], err) ||
		    !(x = gck_grow(&c->img->processes, &c->img->nprocesses, sizeof(*x), err)))
			return -1;
		*x = *c->children[i]->img;
		free(c->children[i]->img);
		c->children[i]->img = NULL;
	}
	return 0;
}
