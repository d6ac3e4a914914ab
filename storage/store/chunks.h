/* SPDX-License-Identifier: Apache-2.0
 * The member "store" of a manifest: the names of objects, and the table of chunks by number. */
#ifndef GCK_CHUNKS_H
#define GCK_CHUNKS_H

#include "storage/base/hash.h"
#include "storage/crypto/job_key.h"
#include "storage/document/hex_table.h"

#define GCK_OBJECT_CHUNKS 4096 /* as many as there are pages in the largest object */
#define GCK_OBJECT_STORED_MAX (GCK_OBJECT_MAX + GCK_OBJECT_CHUNKS * GCK_ENCRYPT_EXTRA)

/* Chunks by number. */
struct gck_chunks {
	struct gck_hex_table rows;
};

/* Load the chunks of a manifest, to be freed by gck_chunks_clear. Everything is checked: each chunk
 * lies in an object of the manifest's table. */
GCK_MUST_CHECK int gck_chunks_load(const json_t *manifest, struct gck_chunks *c,
				   struct gck_error *err);
void gck_chunks_clear(struct gck_chunks *c);

struct gck_chunk gck_chunks_at(const struct gck_chunks *c, size_t number);

/* Change where a chunk lies. */
void gck_chunks_set(struct gck_chunks *c, size_t number, const struct gck_chunk *x);

/* Raise reach[i] to where the last chunk in object i ends. Returns the stored bytes of all
 * chunks. */
uint64_t gck_chunks_reach(const struct gck_chunks *c, uint64_t *reach);

/* The number of chunks of a manifest that was not checked. */
size_t gck_manifest_chunks(const json_t *manifest);

/* The names of a manifest's objects, checked. Borrowed. */
GCK_MUST_CHECK const json_t *gck_manifest_objects(const json_t *manifest, struct gck_error *err);
const char *gck_manifest_of(const json_t *manifest); /* the store's identity; NULL: missing */
bool gck_manifest_shares(const json_t *manifest, size_t object); /* other ranks may have it too */

/* ---- chunks that are found by hash ---------------------------------------------------------- */

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
