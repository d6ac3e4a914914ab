/* SPDX-License-Identifier: Apache-2.0
 * Unwrapping keys and keeping them. A process with keys writes no core file, and other processes of
 * its user (such as ranks) cannot read its memory. */
#include "storage/crypto/keyring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>


static struct {
	gck_unwrap_fn *fn;
	void *arg;
} unwrapper;

void gck_store_unwrapper(gck_unwrap_fn *fn, void *arg)
{
	unwrapper.fn = fn;
	unwrapper.arg = arg;
}

static struct gck_job_key *unwrap(const char *wrapped, struct gck_error *err)
{
	unsigned char key[GCK_CRYPTO_KEY];
	struct gck_job_key *seal = NULL;

	if (!unwrapper.fn) {
		gck_fail(err, ENOKEY, "encrypted, and this process has no access to its key");
		return NULL;
	}
	if (prctl(PR_SET_DUMPABLE, 0) < 0) {
		gck_fail(err, errno, "a key cannot be kept secret here: %s", strerror(errno));
		return NULL;
	}
	if (unwrapper.fn(unwrapper.arg, wrapped, key, err) == 0)
		seal = gck_job_key_new(key, err);
	explicit_bzero(key, sizeof key);
	return seal;
}

const struct gck_job_key *gck_keyring_get(struct gck_store *s, const char *wrapped,
					  struct gck_error *err)
{
	struct gck_keyring_entry *k = s->keys;

	while (k && strcmp(k->wrapped, wrapped))
		k = k->next;
	if (k)
		return k->key;
	k = calloc(1, sizeof *k);
	if (k && (k->wrapped = strdup(wrapped)) && (k->key = unwrap(wrapped, err))) {
		k->next = s->keys;
		s->keys = k;
		return k->key;
	}
	if (!k || !k->wrapped)
		gck_fail(err, ENOMEM, "no memory for a key");
	else
		free(k->wrapped);
	free(k);
	return NULL;
}

void gck_keyring_clear(struct gck_store *s)
{
	while (s->keys) {
		struct gck_keyring_entry *k = s->keys;

		s->keys = k->next;
		gck_job_key_free(k->key);
		free(k->wrapped);
		free(k);
	}
}
