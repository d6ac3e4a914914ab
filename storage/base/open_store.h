/* SPDX-License-Identifier: Apache-2.0
 * The open store of a step, as the parts of storage/ share it. store/store.c opens it. */
#ifndef GCK_OPEN_STORE_H
#define GCK_OPEN_STORE_H

#include "storage/base/backend.h"

#define GCK_STEP_ID_MAX 320 /* "<cluster>/<job>/<step>" */
#define GCK_WRAPPED_MAX 256 /* a wrapped key, with the NUL */
#define GCK_STORE_MEMORY ((size_t)64 << 20) /* the default of gck_store_limit */

/* Called often, by one thread at a time. False: the operation ends with ECANCELED. */
typedef bool gck_progress_fn(void *arg, uint64_t done, uint64_t all);

struct gck_store {
	struct gck_backend *b;
	char of[GCK_STEP_ID_MAX];      /* the store's identity in manifests */
	unsigned cpus;                 /* threads that may compress at once */
	size_t memory;                 /* bytes that may be in transfer */
	const struct gck_job_key *key; /* encrypts what is written; NULL: it is not encrypted */
	char wrapped[GCK_WRAPPED_MAX]; /* the same key as it lies in the store */
	struct gck_keyring_entry *keys;
	struct gck_node_cache *cache;  /* NULL: each process reads objects from the store */
	bool staged;                   /* b writes to a stage first (stage/stage.h) */
	gck_progress_fn *progress;     /* may be NULL */
	void *progress_arg;
};

#endif
