/* SPDX-License-Identifier: Apache-2.0
 * Chunks in the order of their numbers, found by hash. */
#include <stdlib.h>
#include <string.h>

#include "storage/table.h"

#define SLOTS_MIN 256u

void gck_table_clear(struct gck_table *t)
{
	free(t->v);
	free(t->slots);
	memset(t, 0, sizeof *t);
}

static void enter(struct gck_table *t, size_t number)
{
	size_t i = t->v[number].hash.lo & (t->nslots - 1);

	while (t->slots[i])
		i = (i + 1) & (t->nslots - 1);
	t->slots[i] = (uint32_t)number + 1;
}

/* Slots for n chunks, at most half full. */
static int grow_slots(struct gck_table *t, size_t n, struct gck_error *err)
{
	size_t want = t->nslots ? t->nslots : SLOTS_MIN;
	uint32_t *slots;

	while (want < 2 * n)
		want *= 2;
	if (want == t->nslots)
		return 0;
	slots = calloc(want, sizeof *slots);
	if (!slots)
		return gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", n);
	free(t->slots);
	t->slots = slots;
	t->nslots = want;
	for (size_t i = 0; i < t->n; i++)
		enter(t, i);
	return 0;
}

int gck_table_adopt(struct gck_table *t, struct gck_chunk *v, size_t n, struct gck_error *err)
{
	struct gck_table made = { .v = v, .n = n, .room = n };

	if (grow_slots(&made, n, err) < 0)
		return -1;
	*t = made;
	return 0;
}

const struct gck_chunk *gck_table_find(const struct gck_table *t, struct gck_hash hash,
				       uint32_t size)
{
	size_t i = hash.lo & (t->nslots - 1);

	if (!t->nslots)
		return NULL;
	for (; t->slots[i]; i = (i + 1) & (t->nslots - 1)) {
		const struct gck_chunk *c = &t->v[t->slots[i] - 1];

		if (c->hash.lo == hash.lo && c->hash.hi == hash.hi && c->size == size)
			return c;
	}
	return NULL;
}

const struct gck_chunk *gck_table_add(struct gck_table *t, const struct gck_chunk *c,
				      struct gck_error *err)
{
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : SLOTS_MIN / 2;
		struct gck_chunk *v = reallocarray(t->v, room, sizeof *v);

		if (!v) {
			gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", room);
			return NULL;
		}
		t->v = v;
		t->room = room;
	}
	if (grow_slots(t, t->n + 1, err) < 0)
		return NULL;
	t->v[t->n] = *c;
	t->v[t->n].index = (uint32_t)t->n;
	enter(t, t->n);
	return &t->v[t->n++];
}
