/* SPDX-License-Identifier: Apache-2.0
 * A job's key at work: on chunks, names and documents, each with a key of its own that is derived from
 * it. Used by several threads at once. */
#ifndef GCK_JOB_KEY_H
#define GCK_JOB_KEY_H

#include "storage/crypto/crypto.h"
#include "storage/store/store.h"

/* A sealed chunk is so much longer: the nonce before it, the tag behind. */
#define GCK_SEAL_BEFORE GCK_CRYPTO_NONCE
#define GCK_SEAL_EXTRA GCK_CRYPTO_EXTRA

struct gck_seal;

struct gck_seal *gck_seal_new(const unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err);
void gck_seal_free(struct gck_seal *s); /* nothing of the key stays in memory */

/* Of one key; NULL is a key too, that of what is not encrypted. */
bool gck_seal_same(const struct gck_seal *a, const struct gck_seal *b);

/* In place: size bytes (encoded as c says) lie GCK_SEAL_BEFORE behind `at`, where there is room for
 * GCK_SEAL_EXTRA more. What the chunk is (c's hash, size, method) is bound to it: it opens in the place
 * of no other. */
int gck_seal_chunk(const struct gck_seal *s, const struct gck_chunk *c, void *at, size_t size,
		   struct gck_error *err);

/* The c->stored bytes at `at`, opened to `to`, which may be the place where they are sealed. EBADMSG. */
int gck_seal_open_chunk(const struct gck_seal *s, const struct gck_chunk *c, const void *at, void *to,
			struct gck_error *err);

/* A name for bytes that tells nothing about them. */
int gck_seal_name(const struct gck_seal *s, const void *data, size_t size, struct gck_hash *name,
		  struct gck_error *err);

/* A text, bound to `about`; sealed it is base64. free() what is returned. The text, which may be large, is
 * taken over. */
char *gck_seal_text(const struct gck_seal *s, const char *about, char *text, struct gck_error *err);
char *gck_seal_open_text(const struct gck_seal *s, const char *about, const char *box,
			 struct gck_error *err);

#endif
