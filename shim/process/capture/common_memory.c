/* SPDX-License-Identifier: Apache-2.0
 * Memory and System V objects that the rank shares with other ranks of the node: what may be
 * shared, and what is, once all of these ranks are held. Each gives a part of its content, or
 * nothing; in all of them it is an object with the same number. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/process/capture/capture.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"

/* ---- what may be shared -------------------------------------------------------------------- */

struct memories {
	struct gck_common_memory *v;
	size_t n;
	struct gck_error *err;
};

static bool is_same(const struct gck_common_memory *x, uint64_t device, uint64_t inode)
{
	return x->device == device && x->inode == inode;
}

static int add(struct memories *all, const struct gck_common_memory *x)
{
	struct gck_common_memory *slot = gck_grow(&all->v, &all->n, sizeof *slot, all->err);

	if (!slot)
		return -1;
	*slot = *x;
	return 0;
}

static uint64_t size_of(const struct gck_map *m)
{
	return m->end - m->start;
}

/* Whether the mappings of an object show all of it. */
static bool is_covered(const struct gck_image *img, size_t object)
{
	uint64_t at = 0, before;

	do {
		before = at;
		for (size_t i = 0; i < img->nmaps; i++) {
			const struct gck_map *m = &img->maps[i];

			if (m->object == (int32_t)object && m->offset <= at &&
			    m->offset + size_of(m) > at)
				at = m->offset + size_of(m);
		}
	} while (at != before && at < img->objects[object].size);
	return at >= img->objects[object].size;
}

static bool can_write(const struct gck_file *f)
{
	return !(f->flags & O_PATH) && (f->flags & O_ACCMODE) != O_RDONLY;
}

static int add_object(const struct gck_object *o, struct memories *all)
{
	struct gck_common_memory x = {.device = o->device, .inode = o->inode, .size = o->size,
				      .whole = o->has_path, .has_path = o->has_path};

	snprintf(x.name, sizeof x.name, "%s", o->name);
	return add(all, &x);
}

/* The rank's list has those of its descendants. What they hold is copied at one instant for all
 * ranks that use them, whoever writes. */
static int add_ipc(const struct gck_capture *c, struct memories *all)
{
	const struct gck_ipc *v = c->held.whole ? c->img->ipc : c->before.ipc;
	size_t n = c->held.whole ? c->img->nipc : c->before.nipc;

	for (size_t i = 0; i < n; i++) {
		struct gck_common_memory x = {
			.device = GCK_IPC_DEVICE(v[i].kind), .inode = (uint64_t)v[i].number,
			.size = v[i].size ? v[i].size : 1, .whole = true, .writes = true,
			.attached = v[i].attached};

		gck_ipc_name(v[i].kind, v[i].number, x.name, sizeof x.name);
		if (add(all, &x))
			return -1;
	}
	return 0;
}

/* There may be thousands, and the rank may be held. */
static int add_objects(const struct gck_capture *c, struct memories *all)
{
	const struct gck_image *img = c->img;
	struct gck_common_memory *v;
	size_t first = all->n;

	for (size_t i = 0; i < img->nobjects; i++)
		if (add_object(&img->objects[i], all))
			return -1;
	v = all->v + first;
	for (size_t i = 0; i < img->nmaps; i++) {
		const struct gck_map *m = &img->maps[i];
		const struct gck_vma *x = m->object < 0 ? NULL :
						  gck_maps_find(&c->flags.maps, m->start);

		if (m->object >= 0)
			v[m->object].writes |= m->prot & PROT_WRITE;
		if (x)
			v[m->object].bytes += x->resident + x->swapped;
	}
	for (size_t i = 0; i < img->nfiles; i++) {
		const struct gck_file *f = &img->files[i];

		if (f->object < 0)
			continue;
		v[f->object].whole = true;
		v[f->object].writes |= can_write(f) &&
				       !(img->objects[f->object].seals & F_SEAL_WRITE);
	}
	for (size_t i = 0; i < img->nobjects; i++)
		v[i].whole = v[i].whole || is_covered(img, i);
	return 0;
}

/* A descriptor of a file below /dev/shm that this process does not map. */
static int add_file(const struct gck_file *f, struct memories *all)
{
	struct gck_common_memory x = {
		.device = f->device, .inode = f->inode, .size = f->size, .whole = true,
		.writes = can_write(f), .has_path = !f->unlinked};

	snprintf(x.name, sizeof x.name, "%s", f->path);
	return add(all, &x);
}

/* A mapping that is only read, of a file that another rank may write. */
static int add_content(const struct gck_content *x, struct memories *all)
{
	struct gck_common_memory m = {.device = x->device, .inode = x->inode, .size = x->size,
				      .has_path = true};

	snprintf(m.name, sizeof m.name, "%s", x->path);
	return add(all, &m);
}

static int collect(const struct gck_capture *c, struct memories *all)
{
	const struct gck_image *img = c->img;

	if (add_objects(c, all))
		return -1;
	for (size_t i = 0; i < img->nfiles; i++)
		if (gck_file_is_memory(&img->files[i]) && add_file(&img->files[i], all))
			return -1;
	for (size_t i = 0; i < img->nmaps; i++)
		if (img->maps[i].flags & GCK_MAP_READ_SHARED && img->maps[i].content >= 0 &&
		    add_content(&img->contents[img->maps[i].content], all))
			return -1;
	for (size_t i = 0; i < c->nchildren; i++)
		if (collect(c->children[i], all))
			return -1;
	return 0;
}

static int by_memory(const void *x, const void *y)
{
	const struct gck_common_memory *a = x, *b = y;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return (a->inode > b->inode) - (a->inode < b->inode);
}

/* Several processes of the rank, or places of one, may have the same. */
static void merge(struct memories *all)
{
	size_t n = 0;

	if (all->n)
		qsort(all->v, all->n, sizeof *all->v, by_memory);
	for (size_t i = 0; i < all->n; i++) {
		const struct gck_common_memory *x = &all->v[i];
		struct gck_common_memory *same = n ? &all->v[n - 1] : NULL;

		if (!same || !is_same(same, x->device, x->inode)) {
			all->v[n++] = *x;
			continue;
		}
		same->size = x->size > same->size ? x->size : same->size;
		same->bytes += x->bytes;
		same->attached += x->attached;
		if (!*same->name)
			memcpy(same->name, x->name, sizeof same->name);
		same->whole |= x->whole;
		same->writes |= x->writes;
	}
	all->n = n;
}

int gck_capture_memory(const struct gck_capture *c, struct gck_common_memory **list, size_t *n,
		       struct gck_error *err)
{
	struct memories all = {.err = err};

	if (collect(c, &all) || add_ipc(c, &all)) {
		free(all.v);
		return -1;
	}
	merge(&all);
	*list = all.v;
	*n = all.n;
	return 0;
}

/* ---- what is shared ------------------------------------------------------------------------ */

static struct gck_object *find_object(struct gck_image *img, const struct gck_common_memory *x)
{
	for (size_t i = 0; i < img->nobjects; i++)
		if (is_same(x, img->objects[i].device, img->objects[i].inode))
			return &img->objects[i];
	return NULL;
}

/* An open file with a name gets its content as an object, and is only opened again. */
static int name_object(struct gck_image *img, struct gck_file *f, const struct gck_common_memory *x,
		       struct gck_error *err)
{
	struct gck_object *o = find_object(img, x);

	if (!o) {
		o = gck_grow(&img->objects, &img->nobjects, sizeof *o, err);
		if (!o)
			return -1;
		*o = (struct gck_object){.name = strdup(f->path), .has_path = true,
					 .mode = f->mode & 07777, .device = x->device,
					 .inode = x->inode, .owner = f->was.owner};
		if (!o->name)
			return gck_fail(err, ENOMEM, "out of memory for the image");
	}
	f->written = f->whole = false;
	return 0;
}

static int take_files(struct gck_capture *c, const struct gck_common_memory *x,
		      struct gck_error *err)
{
	for (uint32_t i = 0; i < c->img->nfiles; i++) {
		struct gck_file *f = &c->img->files[i];

		if (f->kind != GCK_FD_FILE || !is_same(x, f->device, f->inode))
			continue;
		if (f->unlinked ? gck_file_to_object(c->img, f, err)
				: name_object(c->img, f, x, err))
			return -1;
		gck_frozen_drop(&c->copies, GCK_FROZEN_FILE, i);
	}
	return 0;
}

static int take_mappings(struct gck_image *img, const struct gck_common_memory *x,
			 struct gck_error *err)
{
	for (size_t i = 0; i < img->nmaps; i++) {
		struct gck_map *m = &img->maps[i];
		const struct gck_content *of = m->flags & GCK_MAP_READ_SHARED && m->content >= 0 ?
						       &img->contents[m->content] : NULL;

		if (of && is_same(x, of->device, of->inode) && gck_map_share(img, m, err))
			return -1;
	}
	return 0;
}

/* In each process of the rank it becomes an object. *number: that of the object among what the
 * processes share, if it has one. */
static int make_objects(struct gck_capture *c, const struct gck_common_memory *x, uint32_t *number,
			struct gck_error *err)
{
	const struct gck_object *o;

	if (take_mappings(c->img, x, err) || take_files(c, x, err))
		return -1;
	o = find_object(c->img, x);
	*number = o && o->shared ? o->shared : *number;
	for (size_t i = 0; i < c->nchildren; i++)
		if (make_objects(c->children[i], x, number, err))
			return -1;
	return 0;
}

struct sharing {
	const struct gck_common_memory *x;
	const char *ranks;
	uint32_t number, shared;
	uint64_t from, to;
	bool given; /* by a process before */
};

static int mark(struct gck_capture *c, struct sharing *s, struct gck_error *err)
{
	for (size_t i = 0; i < c->img->nobjects; i++) {
		struct gck_object *o = &c->img->objects[i];

		if (!is_same(s->x, o->device, o->inode))
			continue;
		o->shared = s->shared;
		o->size = s->x->size;
		o->number = s->number;
		o->from = s->from;
		o->to = s->to;
		o->elsewhere = s->from == s->to || s->given;
		s->given |= gck_object_is_whole(c->img, i);
		free(o->ranks);
		o->ranks = strdup(s->ranks);
		if (!o->ranks)
			return gck_fail(err, ENOMEM, "out of memory for the image");
	}
	for (size_t i = 0; i < c->nchildren; i++)
		if (mark(c->children[i], s, err))
			return -1;
	return 0;
}

int gck_capture_share(struct gck_capture *c, const struct gck_common_memory *x, const char *ranks,
		      uint32_t number, uint64_t from, uint64_t to, struct gck_error *err)
{
	struct sharing s = {.x = x, .ranks = ranks, .number = number, .from = from,
			    .to = to};
	int32_t kind = GCK_IPC_KIND(x->device);

	if (GCK_IS_IPC(x->device) && gck_ipc_share(c->img, kind, (int32_t)x->inode, ranks, number,
						   from == to, err))
		return -1;
	if (GCK_IS_IPC(x->device) && kind != GCK_IPC_MEMORY)
		return 0;
	if (make_objects(c, x, &s.shared, err))
		return -1;
	if (!s.shared)
		s.shared = ++c->nmemory;
	return mark(c, &s, err);
}
