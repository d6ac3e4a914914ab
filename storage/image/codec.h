/* SPDX-License-Identifier: Apache-2.0
 * The stored bytes of a chunk: compressed or not, encrypted or not. */
#ifndef GCK_CODEC_H
#define GCK_CODEC_H

#include "common/base/options.h"
#include "storage/base/hash.h"
#include "storage/crypto/job_key.h"

struct gck_codec;

/* key: encrypts the chunks; NULL: they are not encrypted. Borrowed until the codec is freed. */
GCK_MUST_CHECK struct gck_codec *gck_codec_new(enum gck_compress method, int level,
					       const struct gck_job_key *key,
					       struct gck_error *err);
void gck_codec_free(struct gck_codec *c);

/* How many bytes longer than the chunk a stored chunk may be, and how many of them come before. */
#define GCK_CODEC_EXTRA GCK_ENCRYPT_EXTRA
#define GCK_CODEC_BEFORE GCK_ENCRYPT_BEFORE

/* Encode in place. The chunk's bytes lie GCK_CODEC_BEFORE behind `at` if they are to be encrypted;
 * the stored bytes are written to `at`. hash and size of *chunk are set; stored and method are set
 * here. */
GCK_MUST_CHECK int gck_codec_encode(struct gck_codec *c, struct gck_chunk *chunk, void *at,
				    struct gck_error *err);

/* A buffer for the stored bytes of a chunk. */
void *gck_codec_buffer(struct gck_codec *c);

/* Decode the stored bytes `in`, which are overwritten, into data. `in` of a raw chunk may be
 * data. */
GCK_MUST_CHECK int gck_codec_decode(struct gck_codec *c, const struct gck_chunk *chunk, void *in,
				    void *data, struct gck_error *err);

#endif
