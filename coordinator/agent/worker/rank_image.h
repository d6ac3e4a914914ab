/* SPDX-License-Identifier: Apache-2.0
 * What a commit has of a rank, for the processes that bring it back. */
#ifndef AGENT_RANK_IMAGE_H
#define AGENT_RANK_IMAGE_H

#include <jansson.h>

#include "coordinator/agent/worker/worker.h"
#include "storage/store/store.h"

/* manifest is NULL if the rank had finished. */
struct found {
	json_t *manifest;
	struct gck_reader *reader;
	json_int_t exit;          /* wait status of a rank that had finished; -1: it had not */
	uint32_t asked;           /* gck_checkpoint_all()s that ranks were in */
};

/* The store of the step that is gone on from, with this process' share of the node. */
struct gck_store *found_store(const struct worker_task *t, struct gck_error *err);

/* Of commit seq, with that hash ("": not known), for the task's rank; f is filled in as far as it comes,
 * and dropped in any case. The reader needs the store. EPERM: this is no commit to fall back from, but
 * one to be asked for in another way. */
int found_fetch(struct found *f, struct gck_store *store, const struct worker_task *t, uint32_t seq,
		const char *hash, struct gck_error *err);
void found_drop(struct found *f);

/* Its image is made, which has all that is needed of the manifest. */
void found_drop_manifest(struct found *f);

/* The rank's manifest there, and its hash: chunks that it has are not written again. NULL without a
 * readable one: everything is written. */
json_t *base_manifest(const struct worker_task *t, struct gck_store *store, char hash[GCK_HASH_TEXT]);

#endif
