/* SPDX-License-Identifier: Apache-2.0
 * Open addressing with linear probing; at most half full. */
#include "shim/cuda/base/handle_map.h"

#include <stdlib.h>

#define LEAST 16

static size_t home(const struct gck_cuda_handle_map *s, uint64_t handle)
{
	return (size_t)(handle * 0x9e3779b97f4a7c15ull >> 32) & (s->capacity - 1);
}

/* The place of the handle, or where it would be. */
static size_t place(const struct gck_cuda_handle_map *s, uint64_t handle)
{
	size_t i = home(s, handle);

	while (s->entries[i].handle && s->entries[i].handle != handle)
		i = (i + 1) & (s->capacity - 1);
	return i;
}

uint64_t *gck_cuda_handle_map_get(const struct gck_cuda_handle_map *s, uint64_t handle)
{
	size_t i;

	if (!s->capacity || !handle)
		return NULL;
	i = place(s, handle);
	return s->entries[i].handle ? &s->entries[i].value : NULL;
}

static int grow(struct gck_cuda_handle_map *s)
{
	struct gck_cuda_handle_map bigger = {.n = s->n,
					     .capacity = s->capacity ? 2 * s->capacity : LEAST};

	bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
	if (!bigger.entries)
		return -1;
	for (size_t i = 0; i < s->capacity; i++) {
		if (s->entries[i].handle)
			bigger.entries[place(&bigger, s->entries[i].handle)] = s->entries[i];
	}
	free(s->entries);
	*s = bigger;
	return 0;
}

uint64_t *gck_cuda_handle_map_put(struct gck_cuda_handle_map *s, uint64_t handle)
{
	size_t i;

	if (!handle || (2 * (s->n + 1) > s->capacity && grow(s)))
		return NULL;
	i = place(s, handle);
	if (!s->entries[i].handle) {
		s->entries[i] = (struct gck_cuda_entry){.handle = handle};
		s->n++;
	}
	return &s->entries[i].value;
}

/* Move up the entries behind the hole that could not be found otherwise. */
void gck_cuda_handle_map_drop(struct gck_cuda_handle_map *s, uint64_t handle)
{
	size_t hole, mask = s->capacity - 1;

	if (!gck_cuda_handle_map_get(s, handle))
		return;
	hole = place(s, handle);
	for (size_t i = (hole + 1) & mask; s->entries[i].handle; i = (i + 1) & mask) {
		size_t want = home(s, s->entries[i].handle);

		if (((i - want) & mask) >= ((i - hole) & mask)) {
			s->entries[hole] = s->entries[i];
			hole = i;
		}
	}
	s->entries[hole].handle = 0;
	s->n--;
}
