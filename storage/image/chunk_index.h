/* SPDX-License-Identifier: Apache-2.0
 * Chunks in the order of their numbers, with a hash table to find them by hash. */
#ifndef GCK_CHUNK_INDEX_H
#define GCK_CHUNK_INDEX_H

#include "storage/store/chunks.h"

struct gck_chunk_index {
	struct gck_chunks chunks;
	uint32_t *slots; /* open addressing: number + 1, 0 is free; a power of two of them */
	size_t nslots;
};

/* Take chunks over, also on failure. */
GCK_MUST_CHECK int gck_chunk_index_adopt(struct gck_chunk_index *t, struct gck_chunks *chunks,
					 struct gck_error *err);
void gck_chunk_index_clear(struct gck_chunk_index *t);

/* Free the memory that finding takes; the chunks stay. */
void gck_chunk_index_close(struct gck_chunk_index *t);

bool gck_chunk_index_find(const struct gck_chunk_index *t, struct gck_hash hash, uint32_t size,
			  struct gck_chunk *found);

/* Append c, giving it its number. */
GCK_MUST_CHECK int gck_chunk_index_add(struct gck_chunk_index *t, struct gck_chunk *c,
				       struct gck_error *err);

#endif
