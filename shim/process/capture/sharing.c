/* SPDX-License-Identifier: Apache-2.0
 * What the processes of a rank share: open files and memory. All are held, and described. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"

/* What one process has. Only what has the same key may be shared, or be the ends of a pipe. */
struct holding {
	struct gck_capture *c;
	size_t order;              /* of c */
	size_t i;                  /* its index in the image's files or objects */
	bool object;
	uint64_t key[3];
};

struct list {
	struct holding *v;
	size_t n;
	size_t processes;
};

static struct gck_file *file_of(const struct holding *h)
{
	return &h->c->img->files[h->i];
}

static bool is_end(const struct gck_file *f)
{
	return f->kind == GCK_FD_PIPE || f->kind == GCK_FD_SOCKETPAIR ||
	       f->kind == GCK_FD_TERMINAL;
}

static int add(struct list *all, struct holding x, struct gck_error *err)
{
	struct holding *slot = gck_grow(&all->v, &all->n, sizeof *slot, err);

	if (!slot)
		return -1;
	*slot = x;
	slot->order = all->processes;
	return 0;
}

static int add_file(struct list *all, struct gck_capture *c, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &c->img->files[i];

	if (f->kind == GCK_FD_STDIO)
		return 0;
	return add(all, (struct holding){.c = c, .i = i,
					 .key = {f->kind, is_end(f) ? 0 : f->device,
						 is_end(f) ? f->id : f->inode}}, err);
}

static int add_files(struct list *all, struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nfiles; i++)
		if (add_file(all, c, i, err))
			return -1;
	return 0;
}

/* Objects, and files without a name, which several processes can only have as objects. */
static int add_memory(struct list *all, struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nobjects; i++) {
		const struct gck_object *o = &c->img->objects[i];

		if (add(all, (struct holding){.c = c, .i = i, .object = true,
					      .key = {0, o->device, o->inode}}, err))
			return -1;
	}
	for (size_t i = 0; i < c->img->nfiles; i++) {
		const struct gck_file *f = &c->img->files[i];

		if (f->kind == GCK_FD_FILE && f->unlinked &&
		    add(all, (struct holding){.c = c, .i = i, .key = {0, f->device, f->inode}},
			err))
			return -1;
	}
	return 0;
}

static int collect(struct gck_capture *c, struct list *all,
		   int (*add_all)(struct list *, struct gck_capture *, struct gck_error *),
		   struct gck_error *err)
{
	if (add_all(all, c, err))
		return -1;
	all->processes++;
	for (size_t i = 0; i < c->nchildren; i++)
		if (collect(c->children[i], all, add_all, err))
			return -1;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct holding *x = a, *y = b;

	for (size_t i = 0; i < 3; i++)
		if (x->key[i] != y->key[i])
			return x->key[i] < y->key[i] ? -1 : 1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return (x->i > y->i) - (x->i < y->i);
}

static int refuse(const struct holding *h, const char *what, struct gck_error *err)
{
	return gck_fail(err, EAGAIN, "fd %d of process %d: %s; close it in one of them, or wait "
			"until it has ended", gck_image_fd_of(h->c->img, (uint32_t)h->i),
			(int)h->c->t.pid, what);
}

/* ---- files of one key ---------------------------------------------------------------------- */

/* first comes before x in the tree's order: it alone sets what the object watches, when it expires,
 * what waits to be accepted and a terminal's state. */
static int share(const struct holding *first, const struct holding *x)
{
	struct gck_file *a = file_of(first), *b = file_of(x);

	if (!a->shared)
		a->shared = ++first->c->root->nshared;
	b->shared = a->shared;
	free(b->entries);
	free(b->queue);
	free(b->terminals);
	while (b->nwatches)
		free(b->watches[--b->nwatches].path);
	free(b->watches);
	b->entries = NULL;
	b->watches = NULL;
	b->queue = NULL;
	b->terminals = NULL;
	b->nentries = b->nqueue = b->nterminals = 0;
	b->value_ns = b->interval_ns = b->ticks = 0;
	return 0;
}

static struct gck_target_place place_of(const struct holding *h)
{
	return gck_target_at(&h->c->t, gck_image_fd_of(h->c->img, (uint32_t)h->i));
}

static int compare(const struct holding *a, const struct holding *b)
{
	struct gck_target_place x = place_of(a), y = place_of(b);

	return (int)syscall(SYS_kcmp, x.pid, y.pid, KCMP_FILE, x.fd, y.fd);
}

/* Find the first process's file that x is. known: different ones. 1: it is another. */
static int find_same(struct holding *const *known, size_t n, const struct holding *x,
		     struct gck_error *err)
{
	for (size_t i = 0; i < n; i++) {
		int order = known[i]->c == x->c ? 1 : compare(known[i], x);

		if (order < 0)
			return gck_fail(err, errno, "cannot compare descriptors: %s",
					strerror(errno));
		if (order == 0 && file_of(x)->kind == GCK_FD_RING)
			return refuse(x, "an io_uring that another process has, too", err);
		if (order == 0)
			return share(known[i], x);
	}
	return 1;
}

/* Where the other end is, for the packets that were sent from there. */
static void see(const struct holding *end, const struct holding *other)
{
	struct gck_target_place at = place_of(other);
	struct gck_file *f = file_of(end);

	f->other_pid = at.pid;
	f->other_fd = at.fd;
}

/* Both ends of a pair are here if there are two different files; those of a pipe may each be
 * several, which were opened through /proc. */
static int match_ends(struct holding *const *known, size_t n, struct holding *group, size_t size,
		      struct gck_error *err)
{
	bool pair = file_of(known[0])->kind == GCK_FD_SOCKETPAIR, both = pair && n > 1;

	for (size_t i = 0; i < n && !pair; i++)
		both |= gck_file_is_other_end(file_of(known[0]), file_of(known[i]));
	if (pair && both) {
		see(known[0], known[1]);
		see(known[1], known[0]);
	}
	for (size_t i = 0; i < size; i++)
		if (both)
			file_of(&group[i])->elsewhere = false;
		else if (file_of(&group[i])->elsewhere && !file_of(&group[i])->queued)
			return refuse(&group[i], "the other end is in a process that is no "
				      "descendant of the rank", err);
	return 0;
}

/* known: room for all of the group. */
static int relate_files(struct holding *group, size_t size, struct holding **known,
			struct gck_error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		int result = find_same(known, n, &group[i], err);

		if (result < 0)
			return -1;
		if (result)
			known[n++] = &group[i];
		file_of(&group[i])->elsewhere |= i && file_of(group)->kind == GCK_FD_QUEUE;
	}
	return is_end(file_of(group)) ? match_ends(known, n, group, size, err) : 0;
}

/* ---- memory of one key --------------------------------------------------------------------- */

int gck_file_to_object(struct gck_image *img, struct gck_file *f, struct gck_error *err)
{
	struct gck_object *o = gck_grow(&img->objects, &img->nobjects, sizeof *o, err);

	if (!o)
		return -1;
	*o = (struct gck_object){.name = strdup(""), .device = f->device, .inode = f->inode,
				 .size = f->size, .mode = f->mode & 07777,
				 .mtime_ns = f->mtime_ns};
	f->kind = GCK_FD_MEMFD;
	f->object = (int32_t)(img->nobjects - 1);
	return o->name ? 0 : gck_fail(err, ENOMEM, "out of memory for the image");
}

static int make_object(struct holding *h, struct gck_error *err)
{
	if (gck_file_to_object(h->c->img, file_of(h), err))
		return -1;
	h->i = h->c->img->nobjects - 1;
	h->object = true;
	return 0;
}

static struct gck_object *object_of(const struct holding *h)
{
	return &h->c->img->objects[h->i];
}

static bool is_whole(const struct holding *h)
{
	return gck_object_is_whole(h->c->img, h->i);
}

/* A process with a descriptor knows more of the object than one that only maps it. */
static struct gck_object best(const struct holding *group, size_t size)
{
	struct gck_object x = *object_of(&group[0]);

	for (size_t i = 0; i < size; i++) {
		if (is_whole(&group[i]))
			return *object_of(&group[i]);
		if (object_of(&group[i])->size > x.size)
			x.size = object_of(&group[i])->size;
	}
	return x;
}

/* The first process that has all of its content gives that; if there is none, each gives what it
 * maps. */
static int relate_memory(struct holding *group, size_t size, struct holding **known,
			 struct gck_error *err)
{
	struct gck_object x;
	size_t giver = 0;

	(void)known;
	for (size_t i = 0; i < size && size > 1; i++)
		if (!group[i].object && make_object(&group[i], err))
			return -1;
	if (size == 1)
		return 0;
	while (giver < size && !is_whole(&group[giver]))
		giver++;
	x = best(group, size);
	x.shared = ++group[0].c->root->nmemory;
	for (size_t i = 0; i < size; i++) {
		struct gck_object *o = object_of(&group[i]);

		o->size = x.size;
		o->mode = x.mode;
		o->seals = x.seals;
		o->mtime_ns = x.mtime_ns;
		o->shared = x.shared;
		o->elsewhere = giver < size && i != giver;
	}
	return 0;
}

/* Whether a restart gives this file its content, since a process of the rank can write it. */
static bool is_written(const struct gck_capture *c, uint64_t device, uint64_t inode)
{
	bool written = false;

	for (size_t i = 0; i < c->img->nobjects && !written; i++)
		written = c->img->objects[i].device == device && c->img->objects[i].inode == inode;
	for (size_t i = 0; i < c->img->nfiles && !written; i++) {
		const struct gck_file *f = &c->img->files[i];

		written = f->kind == GCK_FD_FILE && f->device == device && f->inode == inode &&
			  f->written && (f->unlinked || (f->whole && !(f->flags & O_APPEND)));
	}
	for (size_t i = 0; i < c->nchildren && !written; i++)
		written = is_written(c->children[i], device, inode);
	return written;
}

/* A shared mapping that is only read shows what is written to its file otherwise. */
static int share_read(const struct gck_capture *root, struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nmaps; i++) {
		struct gck_map *m = &c->img->maps[i];
		const struct gck_content *of = m->kind == GCK_MAP_FILE && m->content >= 0 ?
						       &c->img->contents[m->content] : NULL;

		if (of && m->flags & GCK_MAP_READ_SHARED &&
		    is_written(root, of->device, of->inode) && gck_map_share(c->img, m, err))
			return -1;
	}
	for (size_t i = 0; i < c->nchildren; i++)
		if (share_read(root, c->children[i], err))
			return -1;
	return 0;
}

/* ---- System V objects ---------------------------------------------------------------------- */

static int join_ipc(struct gck_capture *root, struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->nchildren; i++)
		if (gck_ipc_join(&root->img->ipc, &root->img->nipc, c->children[i]->img, err) ||
		    join_ipc(root, c->children[i], err))
			return -1;
	return 0;
}

int gck_tree_join_ipc(struct gck_capture *root, bool alone, struct gck_error *err)
{
	struct gck_obstacles f = {.err = err};
	struct gck_scan s = {.t = &root->t, .img = root->img, .f = &f, .err = err};

	if (join_ipc(root, root, err) || gck_ipc_add_objects(&s))
		return -1;
	gck_ipc_check(root->img->ipc, root->img->nipc, &root->t, !alone, &f);
	return f.refused ? -1 : 0;
}

/* ---- all ----------------------------------------------------------------------------------- */

static int relate(struct gck_capture *root,
		  int (*add_all)(struct list *, struct gck_capture *, struct gck_error *),
		  int (*relate_group)(struct holding *, size_t, struct holding **,
				      struct gck_error *),
		  struct gck_error *err)
{
	struct list all = {0};
	struct holding **known = NULL;
	int result = collect(root, &all, add_all, err);

	if (!result && all.n) {
		qsort(all.v, all.n, sizeof *all.v, by_key);
		known = calloc(all.n, sizeof *known);
		if (!known)
			result = gck_fail(err, ENOMEM, "out of memory for descendants");
	}
	for (size_t i = 0, n; i < all.n && !result; i += n) {
		for (n = 1; i + n < all.n &&
			    !memcmp(all.v[i].key, all.v[i + n].key, sizeof all.v[i].key);)
			n++;
		result = relate_group(all.v + i, n, known, err);
	}
	free(known);
	free(all.v);
	return result;
}

int gck_tree_relate(struct gck_capture *root, struct gck_error *err)
{
	return share_read(root, root, err) || relate(root, add_memory, relate_memory, err) ||
	       (root->nchildren && relate(root, add_files, relate_files, err)) ? -1 : 0;
}
