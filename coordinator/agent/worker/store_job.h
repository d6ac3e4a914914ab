/* SPDX-License-Identifier: Apache-2.0
 * What the agent asks of the store, as functions for job.h: each blocks, and runs in a child. */
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
	const char *key;         /* for store_check: wrapped; "": not encrypted; NULL: not known */
	const json_t *document;  /* the commit, or the sequence numbers to keep */
};

/* The commits in the store: [{"seq","hash"}]. A damaged one is left out. One that cannot be read
 * is an error: it may be the newest. */
json_t *store_list(const void *request, struct gck_error *err);

/* Is there any commit, even a damaged one? true or false. */
json_t *store_used(const void *request, struct gck_error *err);

/* Checks that the store can be reached, the key is available, and ranks share nothing that they
 * write. Returns {"space","memory","first"}: bytes free in each, and whether there is no commit
 * yet. */
json_t *store_check(const void *request, struct gck_error *err);

/* Writes the commit object: {"hash"}. */
json_t *store_commit(const void *request, struct gck_error *err);

/* store_prune removes all commits but those of `document`, and chunks that only they needed.
 * store_discard removes what an aborted checkpoint left, in this node's stage too. Both return
 * true. */
json_t *store_prune(const void *request, struct gck_error *err);
json_t *store_discard(const void *request, struct gck_error *err);

/* Removes expired checkpoints of the user's other steps, as `document` orders (gpuckptd's
 * gck_sweep_orders). Returns `steps`, those that were done, [{"job","step","removals"}], and
 * `left` if some failed: why the last one did. */
json_t *store_sweep(const void *request, struct gck_error *err);

/* Removes from this node's stage what commit seq does not need, and what the user's other steps
 * left long ago. Returns true. */
json_t *store_keep_staged(const void *request, struct gck_error *err);

/* The step has finished: removes all of it from this node's stage. */
void store_clear_staged(const struct step *s);

#endif
