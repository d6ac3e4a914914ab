/* SPDX-License-Identifier: Apache-2.0
 * What a commit holds of a rank, for the processes that restore it. */
#ifndef AGENT_RANK_IMAGE_H
#define AGENT_RANK_IMAGE_H

#include <jansson.h>

#include "coordinator/agent/worker/worker.h"
#include "storage/base/hash.h"
#include "storage/base/open_store.h"

/* manifest is NULL if the rank had finished. */
struct rank_image {
	json_t *manifest;
	struct gck_reader *reader;
	json_int_t exit;          /* wait status of a rank that had finished; -1: it had not */
	uint32_t asked;           /* number of the last gck_checkpoint_all() of the ranks */
};

/* Opens the store of the step that is restarted, and the node's cache of shared chunks. */
struct gck_store *rank_image_open_store(const struct worker_task *t, struct gck_error *err)
	GCK_MUST_CHECK;

/* The error that the step that is restarted has no commit seq, with those that it has. store may be
 * NULL: it has nothing there. */
void rank_image_missing(const struct worker_task *t, struct gck_store *store, uint32_t seq,
			struct gck_error *err);

/* Reads the task's rank out of commit seq, which has this hash ("": not known). f is filled in
 * as far as possible: drop it in any case, before the store is closed. EPERM: not a damaged
 * commit, but one that the options refuse. */
int rank_image_read(struct rank_image *f, struct gck_store *store, const struct worker_task *t,
		    uint32_t seq,
		const char *hash, struct gck_error *err) GCK_MUST_CHECK;
void rank_image_drop(struct rank_image *f);

/* Frees the manifest once the image is made of it. */
void rank_image_drop_manifest(struct rank_image *f);

/* The rank's manifest in the commit that a new image builds on, and its hash: chunks in it are
 * not written again. NULL if there is none that can be read: everything is written. */
json_t *rank_image_base(const struct worker_task *t, struct gck_store *store,
			char hash[GCK_HASH_TEXT]) GCK_MUST_CHECK;

#endif
