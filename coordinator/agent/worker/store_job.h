/* SPDX-License-Identifier: Apache-2.0
 * What the agent asks of the store, as functions for job.h: each blocks and runs in a child. */
#ifndef AGENT_STORE_JOB_H
#define AGENT_STORE_JOB_H

#include <jansson.h>

#include "coordinator/agent/base/step.h"
#include "coordinator/agent/base/tasks.h"

struct store_request {
	const struct step *step;
	const struct tasks *tasks;
	uint32_t seq;
	const char *nonce;
	const char *key;         /* of store_check: wrapped; "": not encrypted; NULL: not known */
	const json_t *document;  /* the commit, or the sequence numbers to keep */
};

/* The commits that lie there: [{"seq","hash"}]. One that is damaged is left out; one that cannot be
 * read is a failure, for nobody knows then which is the newest. */
json_t *store_list(const void *request, struct gck_error *err);

/* Is there a commit, of whatever worth? true or false. */
json_t *store_used(const void *request, struct gck_error *err);

/* What a checkpoint needs beside its ranks: store reachable, key to be had, what ranks share and write refused;
 * {"space","memory","first"}: bytes that fit into each, and whether there is no commit yet. */
json_t *store_check(const void *request, struct gck_error *err);

/* Write the commit object: {"hash"}. */
json_t *store_commit(const void *request, struct gck_error *err);

/* Remove all commits but those of `document` and what only they needed; remove what an aborted
 * checkpoint left, in this node's stage too. true. */
json_t *store_prune(const void *request, struct gck_error *err);
json_t *store_discard(const void *request, struct gck_error *err);

/* Remove what expired of the user's other steps, as `document` orders (gpuckptd's gck_sweep_orders): `steps`,
 * those that were done, [{"job","step","removals"}], and `left`, if others were not: why the last was not. */
json_t *store_sweep(const void *request, struct gck_error *err);

/* Of this node's stage: remove what the commit seq does not need, and what the user's other steps left
 * long ago. true. */
json_t *store_keep_staged(const void *request, struct gck_error *err);

/* The step is finished: nothing of it is wanted here any more. */
void store_clear_staged(const struct step *s);

#endif
