/* SPDX-License-Identifier: Apache-2.0
 * An object that is being made: chunks are copied in one after the other, each is encoded where it
 * lies, then they are moved together and the object gets its name. */
#ifndef GCK_OBJECT_BUFFER_H
#define GCK_OBJECT_BUFFER_H

#include "storage/base/names.h"
#include "storage/image/codec.h"
#include "storage/store/chunks.h"

struct gck_object_buffer {
	struct gck_object_buffer *next;
	char *bytes;             /* GCK_OBJECT_STORED_MAX of them */
	uint32_t used;           /* of them */
	uint32_t extra;          /* for each chunk, beside its own bytes */
	uint32_t n;              /* chunks */
	uint32_t taken, encoded; /* chunks (pipeline.c) */
	bool shared;             /* other ranks may be making the same object */
	bool full;               /* no more chunks are added */
	bool put;                /* a thread is writing it to the store */
	char name[GCK_NAME_MAX]; /* after gck_object_buffer_pack */
	struct gck_chunk chunks[GCK_OBJECT_CHUNKS]; /* index is the caller's, object not set */
};

GCK_MUST_CHECK struct gck_object_buffer *gck_object_buffer_new(struct gck_error *err);
void gck_object_buffer_free(struct gck_object_buffer *x);

bool gck_object_buffer_fits(const struct gck_object_buffer *x, uint32_t size);

/* Copy a chunk that fits; hash, size and index of c are set. It is part of x once the caller raises
 * n. x->extra is the codec's GCK_CODEC_EXTRA or 0. */
void gck_object_buffer_add(struct gck_object_buffer *x, const void *data,
			   const struct gck_chunk *c);

/* Encode chunk i. Several threads may do this at once, for different chunks. */
GCK_MUST_CHECK int gck_object_buffer_encode(struct gck_object_buffer *x, uint32_t i,
					    struct gck_codec *codec, struct gck_error *err);

/* Call it when all chunks are encoded: it removes the gaps, sets the offsets in the object, and
 * makes its name in dir. With a key, the name reveals nothing to those without it. */
GCK_MUST_CHECK int gck_object_buffer_pack(struct gck_object_buffer *x, const char *dir,
					  const struct gck_job_key *key, struct gck_error *err);

#endif
