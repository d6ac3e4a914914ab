/* SPDX-License-Identifier: Apache-2.0
 * How a step starts: cold, from a commit, not again, or not at all. Three phases: every node
 * fetches, verifies and builds its ranks and holds them; only when all have is it decided, and
 * journaled, that they run; every node cuts the ranks' files back; only when all have is the first
 * let go. */
#ifndef GCK_RESTART_H
#define GCK_RESTART_H

#include "coordinator/core/model/live.h"

/* The former incarnation's word on a new one, before it is journaled: NULL if it may start, or the
 * welcome that ends it (`finished`, `refuse`). */
json_t *gck_restart_verdict(struct gck_core *core, const struct gck_step *former,
			    const json_t *fingerprint, const struct gck_options *options);

/* Commits that lie in the store and that the journal does not know (its last words were lost, or
 * all of it) are taken over if they are ours, as of this incarnation; their numbers are never
 * given again. */
void gck_restart_take_over(struct gck_core *core, struct gck_step *step, const json_t *commits,
			   bool ours, uint32_t restarts);

/* A node has registered and is not running: tell it how to start, or all, or to wait. */
void gck_restart_decide(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* Tell a node that the step is not to start, because of live->last_error. */
void gck_restart_refuse(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* {"op":"welcome", "action":, "job":, "step":, "epoch":, "restarts":} */
json_t *gck_welcome(const struct gck_core *core, const struct gck_step *step, const char *action);

#endif
