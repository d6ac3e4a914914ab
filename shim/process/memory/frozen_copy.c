/* SPDX-License-Identifier: Apache-2.0
 * Copies that are made while the rank is held. */
#include "config.h"

#include "shim/process/memory/frozen_copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"

#define BLOCK ((size_t)8 << 20) /* a multiple of a page group */

static int add_block(struct gck_frozen_copies *k, int flags, struct gck_error *err)
{
	char **slot, *p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		return gck_fail(err, ENOMEM, "out of memory for what is copied while the rank is "
				"held (shared memory, files): %s", strerror(errno));
	slot = gck_grow(&k->blocks, &k->nblocks, sizeof(*slot), err);
	if (!slot) {
		munmap(p, BLOCK);
		return -1;
	}
	*slot = p;
	return 0;
}

int gck_frozen_prepare(struct gck_frozen_copies *k, uint64_t bytes, struct gck_error *err)
{
	for (uint64_t done = 0; done < bytes; done += BLOCK)
		if (add_block(k, MAP_POPULATE, err))
			return -1;
	return 0;
}

void gck_frozen_free(struct gck_frozen_copies *k)
{
	for (size_t i = 0; i < k->nblocks; i++)
		munmap(k->blocks[i], BLOCK);
	free(k->blocks);
	free(k->v);
	*k = (struct gck_frozen_copies){0};
}

/* Memory for one page group. What keep() does not use is reused. */
static char *next_group(struct gck_frozen_copies *k, struct gck_error *err)
{
	if (k->block < k->nblocks && BLOCK - k->used < GCK_GROUP_BYTES) {
		k->block++;
		k->used = 0;
	}
	if (k->block == k->nblocks && add_block(k, 0, err))
		return NULL;
	return k->blocks[k->block] + k->used;
}

/* Record the pages of mask, whose bytes are at data, without those that are zero. */
static int keep(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		uint64_t address, uint64_t mask, char *data, struct gck_error *err)
{
	struct gck_frozen_group *x;

	mask = gck_pack_pages(data, mask);
	if (!mask)
		return 0;
	x = gck_grow(&k->v, &k->n, sizeof(*x), err);
	if (!x)
		return -1;
	*x = (struct gck_frozen_group){of, index, address, mask, data};
	k->used += (size_t)__builtin_popcountll(mask) * GCK_PAGE;
	return 0;
}

/* A mask of the first n bytes' pages. */
static uint64_t first_pages(size_t n)
{
	size_t pages = (n + GCK_PAGE - 1) / GCK_PAGE;

	return pages >= GCK_GROUP_PAGES ? ~0ull : (1ull << pages) - 1;
}

static int keep_group(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index, int fd,
		       uint64_t at, uint64_t size, struct gck_error *err)
{
	size_t n = size - at < GCK_GROUP_BYTES ? size - at : GCK_GROUP_BYTES, done = 0;
	char *data = next_group(k, err);

	if (!data)
		return -1;
	while (done < n) {
		ssize_t got = pread(fd, data + done, n - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return gck_fail(err, errno, "cannot read a file's content at %llu: %s",
					(unsigned long long)(at + done), strerror(errno));
		if (got == 0)
			break;
		done += (size_t)got;
	}
	memset(data + done, 0, GCK_GROUP_BYTES - done);
	return keep(k, of, index, at, first_pages(n), data, err);
}

int gck_frozen_file(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index, int fd,
		    uint64_t from, uint64_t to, struct gck_error *err)
{
	for (uint64_t at = from; at < to; at += GCK_GROUP_BYTES) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			break;
		if (data > (off_t)at)
			at = (uint64_t)data / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
		if (at < to && keep_group(k, of, index, fd, at, to, err))
			return -1;
	}
	return 0;
}

void gck_frozen_drop(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].of == of && k->v[i].index == index)
			k->v[i].mask = 0;
}

int gck_frozen_bytes(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		     const void *data, size_t size, struct gck_error *err)
{
	for (size_t at = 0; at < size; at += GCK_GROUP_BYTES) {
		size_t n = size - at < GCK_GROUP_BYTES ? size - at : GCK_GROUP_BYTES;
		char *to = next_group(k, err);

		if (!to)
			return -1;
		memcpy(to, (const char *)data + at, n);
		memset(to + n, 0, GCK_GROUP_BYTES - n);
		if (keep(k, of, index, at, first_pages(n), to, err))
			return -1;
	}
	return 0;
}

static int keep_piece(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		      const struct gck_source *s, const struct gck_range *x, int64_t shift,
		      struct gck_error *err)
{
	uint64_t image = x->start + (uint64_t)shift;
	uint64_t group = image / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	char *data = next_group(k, err);

	if (!data || gck_source_read(s, x, 1, data, err))
		return -1;
	return keep(k, of, index, group,
		    first_pages(x->end - x->start) << ((image - group) / GCK_PAGE), data, err);
}

int gck_frozen_ranges(struct gck_frozen_copies *k, enum gck_frozen_of of, uint32_t index,
		    const struct gck_source *s, const struct gck_ranges *r, int64_t shift,
		    struct gck_error *err)
{
	for (size_t i = 0; i < r->n; i++)
		for (struct gck_range x = r->v[i]; x.start < r->v[i].end; x.start = x.end) {
			uint64_t image = x.start + (uint64_t)shift;
			uint64_t left = GCK_GROUP_BYTES - image % GCK_GROUP_BYTES;

			x.end = x.start + left < r->v[i].end ? x.start + left : r->v[i].end;
			if (keep_piece(k, of, index, s, &x, shift, err))
				return -1;
		}
	return 0;
}

int gck_hold_unforked(struct gck_hold *h)
{
	struct gck_source s = {.pagemap = -1, .mem = -1};
	int result = 0;

	for (size_t i = 0; i < h->img->nmaps && !result; i++) {
		const struct gck_map *m = &h->img->maps[i];
		struct gck_ranges r = {0}, guards = {0};

		if (!(m->flags & (GCK_MAP_DONTFORK | GCK_MAP_WIPEONFORK)) ||
		    (m->kind != GCK_MAP_ANON && m->kind != GCK_MAP_FILE))
			continue;
		if (s.mem < 0 && gck_source_open(&s, h->t->pid, h->err))
			return -1;
		result = gck_source_scan(&s, m->start, m->end, gck_map_is_files(m),
					 &r, &guards, h->err) ||
			 gck_guards_add(h->img, &guards, h->err);
		/* the kernel may drop the pages of MAP_DROPPABLE at any time, and does so now */
		if (!result && !(m->flags & GCK_MAP_DROPPABLE))
			result = gck_frozen_ranges(h->copies, GCK_FROZEN_PAGES, 0, &s, &r, 0,
						   h->err);
		free(r.v);
		free(guards.v);
	}
	gck_source_close(&s);
	return result;
}
