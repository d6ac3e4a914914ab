/* SPDX-License-Identifier: Apache-2.0
 * The keys of encrypted images. An image in the store has its job's key, wrapped by a key that only
 * gpuckptd has. A process that reads or writes the image asks for the key to be unwrapped: in the
 * agent's processes and the CLI by gpuckptd over a connection, in tests by a function. */
#ifndef GCK_KEYRING_H
#define GCK_KEYRING_H

#include "storage/base/open_store.h"
#include "storage/crypto/job_key.h"

/* Unwrap a key. Called by one thread at a time. ENOKEY: the wrapping key does not exist (any
 * more); EACCES: this user may not have the key. */
typedef int gck_unwrap_fn(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
			  struct gck_error *err);

/* Set the process's unwrapper, before the first image that is encrypted. */
void gck_store_unwrapper(gck_unwrap_fn *fn, void *arg);

/* ---- within storage/ ------------------------------------------------------------------------ */

/* The keys that were unwrapped for a store, so that each is unwrapped once. */
struct gck_keyring_entry {
	struct gck_keyring_entry *next;
	char *wrapped;
	struct gck_job_key *key;
};

GCK_MUST_CHECK const struct gck_job_key *gck_keyring_get(struct gck_store *s, const char *wrapped,
							 struct gck_error *err);
void gck_keyring_clear(struct gck_store *s);

#endif
