/* SPDX-License-Identifier: Apache-2.0
 * Chunks in the order of their numbers, found by hash. */
#include <stdlib.h>
#include <string.h>

#include "storage/image/chunk_index.h"

#define SLOTS_MIN 256u

void gck_chunk_index_close(struct gck_chunk_index *t)
{
	free(t->slots);
	t->slots = NULL;
	t->nslots = 0;
}

void gck_chunk_index_clear(struct gck_chunk_index *t)
{
	gck_chunk_index_close(t);
	gck_chunks_clear(&t->chunks);
}

static void enter(struct gck_chunk_index *t, uint64_t key, size_t number)
{
	size_t i = key & (t->nslots - 1);

	while (t->slots[i])
		i = (i + 1) & (t->nslots - 1);
	t->slots[i] = (uint32_t)number + 1;
}

/* Slots for n chunks, at most three quarters full. Old ones go first, so that there are never both. */
static int grow_slots(struct gck_chunk_index *t, size_t n, struct gck_error *err)
{
	size_t want = t->nslots ? t->nslots : SLOTS_MIN;

	while (want / 4 * 3 < n)
		want *= 2;
	if (want == t->nslots)
		return 0;
	gck_chunk_index_close(t);
	t->slots = calloc(want, sizeof *t->slots);
	if (!t->slots)
		return gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", n);
	t->nslots = want;
	for (size_t i = 0; i < t->chunks.rows.n; i++)
		enter(t, gck_chunks_key(&t->chunks, i), i);
	return 0;
}

int gck_chunk_index_adopt(struct gck_chunk_index *t, struct gck_chunks *chunks, struct gck_error *err)
{
	*t = (struct gck_chunk_index){ .chunks = *chunks };
	return grow_slots(t, chunks->rows.n, err);
}

bool gck_chunk_index_find(const struct gck_chunk_index *t, struct gck_hash hash, uint32_t size,
		    struct gck_chunk *found)
{
	size_t i = hash.lo & (t->nslots - 1);

	if (!t->nslots)
		return false;
	for (; t->slots[i]; i = (i + 1) & (t->nslots - 1)) {
		struct gck_chunk c;

		if (gck_chunks_key(&t->chunks, t->slots[i] - 1) != hash.lo)
			continue;
		c = gck_chunks_at(&t->chunks, t->slots[i] - 1);
		if (gck_hash_same(c.hash, hash) && c.size == size) {
			*found = c;
			return true;
		}
	}
	return false;
}

int gck_chunk_index_add(struct gck_chunk_index *t, struct gck_chunk *c, struct gck_error *err)
{
	size_t number = t->chunks.rows.n;

	if (grow_slots(t, number + 1, err) < 0 || gck_chunks_add(&t->chunks, c, err) < 0)
		return -1;
	c->index = (uint32_t)number;
	enter(t, c->hash.lo, number);
	return 0;
}
