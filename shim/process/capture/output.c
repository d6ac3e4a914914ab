/* SPDX-License-Identifier: Apache-2.0
 * Writing the image from the clone and from the frozen copies, while the rank runs on. */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/process/memory/external_files.h"
#include "shim/process/capture/capture.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/memory/memory.h"
#include "shim/process/rank/helper_link.h"

#define CLONE_MS 30000

/* o->done may exceed c->expected: the rank may have allocated more memory since that was
 * counted. */
int gck_output_count(struct gck_output *o, uint64_t bytes)
{
	uint64_t all = o->c->root->expected;

	o->done += bytes;
	if (o->progress && o->progress(o->arg, o->done, all > o->done ? all : o->done + 1))
		return gck_fail(o->err, ECANCELED, "writing the image was stopped");
	return 0;
}

int gck_output_put(struct gck_output *o, struct gck_page_groups *to, uint64_t address,
		   uint64_t mask, const char *data)
{
	struct gck_page_group x = {.address = address, .mask = mask};
	size_t size = (size_t)__builtin_popcountll(mask) * GCK_PAGE;

	if (gck_writer_put(o->w, data, size, &x.chunk, o->err) ||
	    gck_page_groups_add(to, &x, o->err))
		return -1;
	return gck_output_count(o, size);
}

int gck_output_again(struct gck_output *o, struct gck_page_groups *to,
		     const struct gck_page_group *x)
{
	uint32_t size = (uint32_t)__builtin_popcountll(x->mask) * GCK_PAGE;
	struct gck_page_group now = *x;
	int known = gck_writer_reuse(o->w, x->chunk.index, size, &now.chunk, o->err);

	if (known <= 0)
		return known;
	return gck_page_groups_add(to, &now, o->err) || gck_output_count(o, size) ? -1 : 1;
}

/* ---- frozen copies ------------------------------------------------------------------------- */

static struct gck_page_groups *kept_list(struct gck_image *img, const struct gck_frozen_group *x)
{
	switch (x->of) {
	case GCK_FROZEN_OBJECT:
		return &img->objects[x->index].groups;
	case GCK_FROZEN_FILE:
		return &img->files[x->index].data;
	case GCK_FROZEN_PAGES:
		break;
	}
	return &img->pages;
}

static int write_frozen_copies(struct gck_output *o)
{
	struct gck_image *img = o->c->img;
	const struct gck_frozen_copies *k = &o->c->copies;

	for (size_t i = 0; i < k->n; i++) {
		const struct gck_frozen_group *x = &k->v[i];

		if (x->mask &&
		    gck_output_put(o, kept_list(img, x), x->address, x->mask, x->data))
			return -1;
	}
	gck_page_groups_sort(&img->pages);
	gck_page_groups_sort(&img->guards);
	for (size_t i = 0; i < img->nobjects; i++)
		gck_page_groups_sort(&img->objects[i].groups);
	return 0;
}


/* Take a mapping's flags from a part of it in the clone. */
static int check_part(struct gck_output *o, struct gck_map *m, const struct gck_maps *clone,
		      const struct gck_range *part)
{
	const uint32_t seen = GCK_MAP_ALL &
			      ~(GCK_MAP_DONTFORK | GCK_MAP_LOCKED | GCK_MAP_ONFAULT |
				GCK_MAP_READ_SHARED);
	const struct gck_vma *x = gck_maps_find(clone, part->start);
	uint32_t flags = x ? gck_map_flags(x->flags) : 0;

	if (!x || x->end < part->end ||
	    (flags & GCK_MAP_WIPEONFORK) != (m->flags & GCK_MAP_WIPEONFORK))
		return gck_fail(o->err, EAGAIN, "memory at %llx was marked not to be forked while "
				"the checkpoint began; try again", (unsigned long long)m->start);
	m->flags = (m->flags & ~seen) | (flags & seen);
	return 0;
}

/* Read the mappings' flags from the clone: they may have changed between reading smaps and the
 * freeze. The clone has the flags of the freeze, but no DONTFORK mappings and no locks. What it was
 * forked without was read while the rank was held. */
static int check_clone(struct gck_output *o)
{
	struct gck_image *img = o->c->img;
	int proc = gck_proc_open(o->c->clone, o->err);
	struct gck_maps maps = {0};
	int result = proc < 0 ? -1 : gck_smaps_read(proc, &maps, o->err);

	for (size_t i = 0; i < img->nmaps && !result; i++) {
		struct gck_map *m = &img->maps[i];
		uint64_t at = m->start;
		struct gck_range part;

		if ((m->flags & GCK_MAP_DONTFORK) || m->kind >= GCK_MAP_VDSO ||
		    (m->object >= 0 && img->objects[m->object].segment))
			continue;
		while (!result && gck_ranges_next_part(&o->c->rewritten.copied, &at, m->end, &part))
			result = check_part(o, m, &maps, &part);
	}
	gck_maps_free(&maps);
	if (proc >= 0)
		close(proc);
	return result;
}

/* Store the vdso: under another kernel its code is restored as plain memory. */
static int put_vdso(struct gck_output *o, uint64_t start, uint64_t end)
{
	for (uint64_t at = start, next; at < end; at = next) {
		uint64_t group = at / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
		uint64_t mask;
		unsigned n;

		next = group + GCK_GROUP_BYTES < end ? group + GCK_GROUP_BYTES : end;
		n = (unsigned)((next - at) / GCK_PAGE);
		mask = (n == 64 ? ~0ull : (1ull << n) - 1) << ((at - group) / GCK_PAGE);
		if (gck_output_put(o, &o->c->img->pages, group, mask,
				   o->pages_out.buffer + (at - start)))
			return -1;
	}
	return 0;
}

static int write_vdso(struct gck_output *o)
{
	struct gck_image *img = o->c->img;

	for (size_t i = 0; i < img->nmaps; i++) {
		struct gck_range r = {img->maps[i].start, img->maps[i].end};

		if (img->maps[i].kind != GCK_MAP_VDSO)
			continue;
		if (r.end - r.start > GCK_BATCH_PAGES * GCK_PAGE)
			return gck_fail(o->err, ENOTSUP, "the vdso is larger than expected");
		if (gck_source_read(&o->source, &r, 1, o->pages_out.buffer, o->err))
			return -1;
		img->vdso = gck_hash_bytes(o->pages_out.buffer, r.end - r.start);
		if (put_vdso(o, r.start, r.end))
			return -1;
	}
	return 0;
}

/* The clone is dropped before the device data are read, which takes far longer. While it lives,
 * each page that the rank writes costs the job memory, and the job can be killed for it. The device
 * copy, in contrast, is freed when the program needs the memory. */
static int write_clone(struct gck_output *o)
{
	struct gck_capture *c = o->c;
	int result;

	if (gck_clone_ready(c->life, CLONE_MS, o->err) ||
	    gck_source_open(&o->source, c->clone, o->err))
		return -1;
	result = gck_clone_pages_open(&o->pages_out, c->clone, c->life, GCK_BATCH_PAGES * GCK_PAGE,
				      o->err);
	result = result || check_clone(o) || gck_output_finish_calls(o) || write_vdso(o) ||
		 gck_output_contents(o) || gck_output_memory(o) ||
		 gck_clone_pages_check(&o->pages_out, o->err);
	gck_clone_pages_close(&o->pages_out);
	gck_output_free(o);
	gck_source_close(&o->source);
	gck_capture_drop_clone(c);
	return result;
}

/* Write the process's part of the image, then those below it. *done: bytes, of all. */
static int write_tree(struct gck_capture *c, const struct gck_output *as, uint64_t *done)
{
	struct gck_output o = *as;
	int result;

	o.c = c;
	o.done = *done;
	result = write_clone(&o) || gck_output_rewritten(&o) || write_frozen_copies(&o) ||
		 gck_output_device(&o) ||
		 gck_prefixes_sync(&c->prefixes, c->img, o.err) ||
		 gck_external_sync_named(c->img, o.err) ||
		 gck_prefixes_verify(&c->prefixes, c->img, o.err);
	if (result)
		return gck_fail_in(o.err, "process %d", (int)c->t.pid);
	gck_frozen_free(&c->copies);
	gck_hex_table_clear(&c->base_pages.rows);
	*done = o.done;
	for (size_t i = 0; i < c->nchildren; i++)
		if (write_tree(c->children[i], as, done))
			return -1;
	return 0;
}

int gck_capture_write(struct gck_capture *c, struct gck_writer *w,
		      int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		      struct gck_error *err)
{
	const struct gck_output o = {.w = w, .progress = progress, .arg = arg, .err = err,
				     .source = {.pagemap = -1, .mem = -1}};
	uint64_t done = 0;

	if (c->life < 0)
		return gck_fail(err, EINVAL,
				"the rank was not captured: there is nothing to write");
	if (write_tree(c, &o, &done))
		return -1;
	if (gck_writer_finish(w, err))
		return gck_fail_in(err, "process %d", (int)c->t.pid);
	if (progress) {
		uint64_t all = done > c->expected ? done : c->expected;

		progress(arg, all, all);
	}
	return 0;
}

/* What a restore would refuse is no image. */
static json_t *make_manifest(struct gck_capture *c, struct gck_error *err)
{
	if (gck_tree_join(c, err))
		return NULL;
	if (gck_image_check(c->img, err)) {
		gck_fail_in(err, "what was captured is not whole; try again");
		return NULL;
	}
	return gck_image_to_json(c->img, err);
}

int gck_capture_manifest(struct gck_capture *c, struct gck_writer *w, uint32_t rank,
			 const json_t *extra, char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	json_t *j = make_manifest(c, err);
	int result = -1;

	gck_image_free(c->img); /* j shares its lists */
	c->img = NULL;
	if (j && extra && json_object_update_missing(j, (json_t *)(uintptr_t)extra))
		gck_fail(err, ENOMEM, "out of memory for the manifest");
	else if (j)
		result = gck_writer_manifest(w, rank, j, hash, err);
	json_decref(j);
	return result ? gck_fail_in(err, "process %d", (int)c->t.pid) : 0;
}
