/* SPDX-License-Identifier: Apache-2.0
 * Keys of encrypted images. What lies in the store has its job's key, wrapped by one that gpuckptd alone
 * has; the process that reads or writes it asks for it to be unwrapped. In the agent's processes and the
 * CLI that is gpuckptd behind a connection, in tests a function. */
#ifndef GCK_STORE_KEYRING_H
#define GCK_STORE_KEYRING_H

#include "storage/crypto/job_key.h"

#define GCK_WRAPPED_MAX 256 /* of a wrapped key, with the NUL */

/* Unwrap. Called by one thread at a time of those that read and write documents. ENOKEY: the key that
 * it is wrapped by is not there (any more); EACCES: it is not for this user. */
typedef int gck_unwrap_fn(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
			  struct gck_error *err);

/* For the whole process, before the first image that is encrypted. */
void gck_store_unwrapper(gck_unwrap_fn *fn, void *arg);

/* Writers that are opened from now on encrypt with this key. "": they do not. */
int gck_store_encrypt(struct gck_store *s, const char *wrapped, struct gck_error *err);

/* Is a commit or manifest, as it was read, encrypted? */
bool gck_document_is_encrypted(const json_t *document);

/* ---- within storage/ ----------------------------------------------------------------------- */

/* Keys that were unwrapped for a store, so that each is asked for once. */
struct gck_keyring_entry {
	struct gck_keyring_entry *next;
	char *wrapped;
	struct gck_job_key *seal;
};

const struct gck_job_key *gck_keyring_get(struct gck_store *s, const char *wrapped, struct gck_error *err);
void gck_keyring_clear(struct gck_store *s);

#endif
