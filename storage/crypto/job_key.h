/* SPDX-License-Identifier: Apache-2.0
 * A job's key. Chunks, names and documents are each encrypted with a key of their own, derived from
 * it. Several threads may use it at once. */
#ifndef GCK_JOB_KEY_H
#define GCK_JOB_KEY_H

#include "storage/base/hash.h"
#include "storage/crypto/crypto.h"

/* An encrypted chunk is this much longer: the nonce before it, the tag behind it. */
#define GCK_ENCRYPT_BEFORE GCK_CRYPTO_NONCE
#define GCK_ENCRYPT_EXTRA GCK_CRYPTO_EXTRA

struct gck_job_key;

GCK_MUST_CHECK struct gck_job_key *gck_job_key_new(const unsigned char key[GCK_CRYPTO_KEY],
						   struct gck_error *err);
void gck_job_key_free(struct gck_job_key *k); /* wipes the key from memory */

/* Are these the same key? NULL stands for no encryption. */
bool gck_job_key_same(const struct gck_job_key *a, const struct gck_job_key *b);

/* Encrypt in place: size bytes (encoded as c says) lie GCK_ENCRYPT_BEFORE behind `at`, and there is
 * space for GCK_ENCRYPT_EXTRA bytes more. c's hash, size and method are bound to it, so that it
 * decrypts in the place of no other chunk. */
GCK_MUST_CHECK int gck_chunk_encrypt(const struct gck_job_key *k, const struct gck_chunk *c,
				     void *at, size_t size, struct gck_error *err);

/* Decrypt the c->stored bytes at `at` to `to`, which may be where the encrypted bytes lie.
 * EBADMSG. */
GCK_MUST_CHECK int gck_chunk_decrypt(const struct gck_job_key *k, const struct gck_chunk *c,
				     const void *at, void *to, struct gck_error *err);

/* A name for bytes that reveals nothing about them: their keyed hash. */
GCK_MUST_CHECK int gck_keyed_name(const struct gck_job_key *k, const void *data, size_t size,
				  struct gck_hash *name, struct gck_error *err);

/* Encrypt a text, bound to `about`, as base64. The text, which may be large, is taken over. free()
 * the result. */
GCK_MUST_CHECK char *gck_text_encrypt(const struct gck_job_key *k, const char *about, char *text,
				      struct gck_error *err);
GCK_MUST_CHECK char *gck_text_decrypt(const struct gck_job_key *k, const char *about,
				      const char *box, struct gck_error *err);

#endif
