/* SPDX-License-Identifier: Apache-2.0
 * Chunks in the order of their numbers, found by hash. */
#ifndef GCK_CHUNK_INDEX_H
#define GCK_CHUNK_INDEX_H

#include "storage/store/internal.h"

struct gck_chunk_index {
	struct gck_chunks chunks;
	uint32_t *slots; /* open addressing: number + 1, 0 is free; a power of two of them */
	size_t nslots;
};

/* Take chunks over, also on failure. */
int gck_chunk_index_adopt(struct gck_chunk_index *t, struct gck_chunks *chunks, struct gck_error *err);
void gck_chunk_index_clear(struct gck_chunk_index *t);

/* Give the memory back that finding takes. */
void gck_chunk_index_close(struct gck_chunk_index *t);

bool gck_chunk_index_find(const struct gck_chunk_index *t, struct gck_hash hash, uint32_t size,
		    struct gck_chunk *found);

/* Append c, giving it its number. */
int gck_chunk_index_add(struct gck_chunk_index *t, struct gck_chunk *c, struct gck_error *err);

#endif
