/* SPDX-License-Identifier: Apache-2.0
 * A job's key at work: on chunks, names and documents, each with a key of its own that is derived from
 * it. Used by several threads at once. */
#ifndef GCK_JOB_KEY_H
#define GCK_JOB_KEY_H

#include "storage/crypto/crypto.h"
#include "storage/store/store.h"

/* A sealed chunk is so much longer: the nonce before it, the tag behind. */
#define GCK_ENCRYPT_BEFORE GCK_CRYPTO_NONCE
#define GCK_ENCRYPT_EXTRA GCK_CRYPTO_EXTRA

struct gck_job_key;

struct gck_job_key *gck_job_key_new(const unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err);
void gck_job_key_free(struct gck_job_key *s); /* nothing of the key stays in memory */

/* Of one key; NULL is a key too, that of what is not encrypted. */
bool gck_job_key_same(const struct gck_job_key *a, const struct gck_job_key *b);

/* In place: size bytes (encoded as c says) lie GCK_ENCRYPT_BEFORE behind `at`, where there is room for
 * GCK_ENCRYPT_EXTRA more. What the chunk is (c's hash, size, method) is bound to it: it opens in the place
 * of no other. */
int gck_chunk_encrypt(const struct gck_job_key *s, const struct gck_chunk *c, void *at, size_t size,
		   struct gck_error *err);

/* The c->stored bytes at `at`, opened to `to`, which may be the place where they are sealed. EBADMSG. */
int gck_chunk_decrypt(const struct gck_job_key *s, const struct gck_chunk *c, const void *at, void *to,
			struct gck_error *err);

/* A name for bytes that tells nothing about them. */
int gck_keyed_name(const struct gck_job_key *s, const void *data, size_t size, struct gck_hash *name,
		  struct gck_error *err);

/* A text, bound to `about`; sealed it is base64. free() what is returned. The text, which may be large, is
 * taken over. */
char *gck_text_encrypt(const struct gck_job_key *s, const char *about, char *text, struct gck_error *err);
char *gck_text_decrypt(const struct gck_job_key *s, const char *about, const char *box,
			 struct gck_error *err);

#endif
