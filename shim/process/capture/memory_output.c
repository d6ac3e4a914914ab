/* SPDX-License-Identifier: Apache-2.0
 * Writing private memory. Pages that were not written since the previous image are reused from it
 * by their chunks; the others are read from the clone. */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shim/process/capture/capture.h"
#include "shim/process/memory/memory.h"

#define SCANNED ((uint64_t)1 << 30) /* bytes of a mapping whose page map is read at once */
#define GIVEN_BACK ((size_t)8 << 20)

/* Store a batch that the clone has copied. */
static int store(struct gck_output *o, int half)
{
	struct gck_page_batch *b = &o->batches[half];
	char *at = gck_clone_pages_take(&o->pages_out, half, &o->source, b->pieces.v, b->pieces.n,
					o->err);

	if (!at)
		return -1;
	for (size_t i = 0; i < b->ngroups; i++) {
		uint64_t mask = b->groups[i].mask;
		size_t size = (size_t)__builtin_popcountll(mask) * GCK_PAGE;

		mask = gck_pack_pages(at, mask);
		if (mask && gck_output_put(o, &o->c->img->pages, b->groups[i].address, mask, at))
			return -1;
		at += size;
	}
	b->pieces.n = b->ngroups = b->pages = 0;
	return 0;
}

/* Ask the clone for the full batch, and store the previous one meanwhile. */
static int flush(struct gck_output *o)
{
	struct gck_page_batch *b = &o->batches[o->filling];

	if (gck_clone_pages_ask(&o->pages_out, o->filling, b->pieces.v, b->pieces.n, o->err))
		return -1;
	o->filling = !o->filling;
	return store(o, o->filling);
}

/* Add a page group's pages to the batch. */
static int read_group(struct gck_output *o, const struct gck_page_group *x)
{
	unsigned pages = (unsigned)__builtin_popcountll(x->mask);
	struct gck_page_batch *b = &o->batches[o->filling];

	if (b->ngroups == GCK_BATCH_GROUPS || b->pages + pages > GCK_BATCH_PAGES) {
		if (flush(o))
			return -1;
		b = &o->batches[o->filling];
	}
	b->groups[b->ngroups++] = *x;
	b->pages += pages;
	for (uint64_t left = x->mask; left; left &= left - 1) {
		uint64_t at = x->address + (uint64_t)__builtin_ctzll(left) * GCK_PAGE;

		if (gck_ranges_add(&b->pieces, at, at + GCK_PAGE, o->err))
			return -1;
	}
	return 0;
}

/* Find the page group in the image that this one builds on. It can be reused if it has exactly
 * these pages and none was written since. (A page that was not stored then may have been zero or
 * left out, so it is read.) Page groups come in order of address. */
static bool unwritten(struct gck_output *o, const struct gck_page_group *x,
		      struct gck_page_group *was)
{
	const struct gck_page_groups *base = &o->c->base_pages;
	size_t n = base->rows.n;

	while (o->base < n && gck_page_groups_address(base, o->base) < x->address)
		o->base++;
	if (o->base == n ||
	    (o->base + 1 < n && gck_page_groups_address(base, o->base + 1) == x->address))
		return false;
	*was = gck_page_groups_at(base, o->base);
	return was->address == x->address && was->mask == x->mask &&
	       gck_dirty_unwritten(&o->c->dirty, x->address);
}

/* Reuse or read the page group, whose pages are now all known. */
static int finish_group(struct gck_output *o)
{
	struct gck_page_group x = o->next, was;
	int known = 0;

	if (x.mask && unwritten(o, &x, &was))
		known = gck_output_again(o, &o->c->img->pages, &was);
	o->next.mask = 0;
	if (known || !x.mask)
		return known < 0 ? -1 : 0;
	return read_group(o, &x);
}

/* Add pages of one page group to o->next. */
static int add_piece(struct gck_output *o, uint64_t start, uint64_t end)
{
	uint64_t group = start / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	unsigned first = (unsigned)((start - group) / GCK_PAGE);
	unsigned n = (unsigned)((end - start) / GCK_PAGE);

	if (o->next.address != group && finish_group(o))
		return -1;
	o->next.address = group;
	o->next.mask |= (n == 64 ? ~0ull : (1ull << n) - 1) << first;
	return 0;
}

/* Add the pages of a part of a mapping. */
static int write_part(struct gck_output *o, const struct gck_map *m, uint64_t start, uint64_t end)
{
	struct gck_ranges r = {0}, guards = {0};
	int result = gck_source_scan(&o->source, start, end, gck_map_is_files(m), &r, &guards,
				     o->err) ||
		     gck_guards_add(o->c->img, &guards, o->err);

	for (size_t i = 0; i < r.n && !result; i++)
		for (uint64_t at = r.v[i].start, next; at < r.v[i].end && !result; at = next) {
			next = (at / GCK_GROUP_BYTES + 1) * GCK_GROUP_BYTES;
			if (next > r.v[i].end)
				next = r.v[i].end;
			result = add_piece(o, at, next);
		}
	free(r.v);
	free(guards.v);
	return result ? -1 : 0;
}

/* The mapping is scanned in parts: the ranges of a large one, with every second page present, would
 * take more memory than everything else. */
static int write_map(struct gck_output *o, const struct gck_map *m)
{
	uint64_t from = m->start;
	struct gck_range part;

	while (gck_ranges_next_part(&o->c->rewritten.copied, &from, m->end, &part))
		for (uint64_t at = part.start, end; at < part.end; at = end) {
			end = at + SCANNED < part.end ? at + SCANNED : part.end;
			if (write_part(o, m, at, end))
				return -1;
		}
	return 0;
}

/* Its memory is given back as it is stored. */
int gck_output_rewritten(struct gck_output *o)
{
	struct gck_rewritten *w = &o->c->rewritten;
	char *given = w->data;

	for (size_t i = 0; i < w->ngroups; i++) {
		struct gck_rewritten_group *g = &w->groups[i];
		uint64_t mask = gck_pack_pages(g->data, g->mask);

		if (mask && gck_output_put(o, &o->c->img->pages, g->address, mask, g->data))
			return -1;
		if ((size_t)(g->data - given) >= GIVEN_BACK) {
			madvise(given, GIVEN_BACK, MADV_DONTNEED);
			given += GIVEN_BACK;
		}
	}
	gck_rewritten_free(w);
	return 0;
}

int gck_output_memory(struct gck_output *o)
{
	const struct gck_image *img = o->c->img;

	for (size_t i = 0; i < img->nmaps; i++) {
		const struct gck_map *m = &img->maps[i];

		if ((m->kind == GCK_MAP_ANON || m->kind == GCK_MAP_FILE) && !m->empty &&
		    !(m->flags & (GCK_MAP_DONTFORK | GCK_MAP_WIPEONFORK)) && write_map(o, m))
			return -1;
	}
	return finish_group(o) || flush(o) || flush(o);
}

void gck_output_free(struct gck_output *o)
{
	free(o->batches[0].pieces.v);
	free(o->batches[1].pieces.v);
}
