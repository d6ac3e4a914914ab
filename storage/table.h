/* SPDX-License-Identifier: Apache-2.0
 * Chunks in the order of their numbers, found by hash. */
#ifndef GCK_TABLE_H
#define GCK_TABLE_H

#include "storage/store.h"

struct gck_table {
	struct gck_chunk *v;
	size_t n, room;
	uint32_t *slots; /* open addressing: number + 1, 0 is free; a power of two of them */
	size_t nslots;
};

/* Take over v (free()d by gck_table_clear). -1 without memory: v is still the caller's. */
int gck_table_adopt(struct gck_table *t, struct gck_chunk *v, size_t n, struct gck_error *err);
void gck_table_clear(struct gck_table *t);

const struct gck_chunk *gck_table_find(const struct gck_table *t, struct gck_hash hash,
				       uint32_t size);

/* Append c, giving it its number. */
const struct gck_chunk *gck_table_add(struct gck_table *t, const struct gck_chunk *c,
				      struct gck_error *err);

#endif
