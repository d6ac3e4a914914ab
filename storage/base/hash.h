/* SPDX-License-Identifier: Apache-2.0
 * Chunks and their hashes. A chunk is up to GCK_CHUNK_MAX bytes, known by the XXH3-128 of its
 * uncompressed bytes; an object in the store holds up to GCK_OBJECT_MAX bytes of chunks. */
#ifndef GCK_HASH_H
#define GCK_HASH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_CHUNK_MAX (256u * 1024)
#define GCK_OBJECT_MAX (16u * 1024 * 1024)
#define GCK_HASH_TEXT 33 /* 32 hex digits and the NUL */

struct gck_hash {
	uint64_t hi, lo;
};

static inline bool gck_hash_same(struct gck_hash a, struct gck_hash b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

struct gck_hash gck_hash_bytes(const void *data, size_t size);

/* The text form has the canonical byte order. */
void gck_hash_text(struct gck_hash h, char text[GCK_HASH_TEXT]);

/* Hash of the compact text with sorted keys: equal values have equal hashes. */
void gck_hash_json(const json_t *value, char text[GCK_HASH_TEXT]);
GCK_MUST_CHECK int gck_hash_parse(const char *text, struct gck_hash *h, struct gck_error *err);

/* A chunk and where it lies. */
struct gck_chunk {
	struct gck_hash hash; /* of its bytes */
	uint32_t index;       /* its number: JSON refers to the chunk by it */
	uint32_t object;      /* index into the object table of the manifest or writer */
	uint32_t offset;      /* in the object */
	uint32_t stored;      /* bytes there */
	uint32_t size;        /* bytes of the chunk, at least 1 */
	uint32_t method;      /* enum gck_compress: how it is stored */
};

#endif
