/* SPDX-License-Identifier: Apache-2.0
 * An object while it is made: chunks are copied in one after the other, each is encoded where it
 * lies, then they are moved together and the whole gets its name. */
#ifndef GCK_OBJECT_BUFFER_H
#define GCK_OBJECT_BUFFER_H

#include "storage/store/internal.h"

struct gck_object_buffer {
	struct gck_object_buffer *next;
	char *room;               /* GCK_OBJECT_STORED_MAX bytes */
	uint32_t used;            /* of them */
	uint32_t extra;           /* for each chunk, beside its own bytes */
	uint32_t n;               /* chunks */
	uint32_t taken, encoded;  /* of them (pipeline.c) */
	bool shared;              /* other ranks may be making the same one */
	bool sealed;              /* nothing more is added */
	bool put;                 /* a thread has it */
	char name[GCK_NAME_MAX];  /* after gck_object_buffer_pack */
	struct gck_chunk chunks[GCK_OBJECT_CHUNKS]; /* index is the caller's, object not set */
};

struct gck_object_buffer *gck_object_buffer_new(struct gck_error *err);
void gck_object_buffer_free(struct gck_object_buffer *x);

bool gck_object_buffer_fits(const struct gck_object_buffer *x, uint32_t size);

/* Copy a chunk that fits; of c the hash, size and index are set. It is no part of x yet: n is the
 * caller's to raise. x->extra is what the codec will want. */
void gck_object_buffer_add(struct gck_object_buffer *x, const void *data, const struct gck_chunk *c);

/* Encode chunk i. Several threads may do this at once, for a chunk each. */
int gck_object_buffer_encode(struct gck_object_buffer *x, uint32_t i, struct gck_codec *codec,
		      struct gck_error *err);

/* When all are encoded: no gaps, offsets as in the object, and its name in dir, which tells nothing to who
 * has not the key of seal. */
int gck_object_buffer_pack(struct gck_object_buffer *x, const char *dir, const struct gck_job_key *seal,
		    struct gck_error *err);

#endif
