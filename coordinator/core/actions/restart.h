/* SPDX-License-Identifier: Apache-2.0
 * The decision how a step starts: cold, from a commit, not again, or not at all. A restart has
 * three phases (restart_phases.c). Every node fetches, verifies and builds its ranks and holds
 * them. When all have, the decision that they run is journaled, and every node truncates its ranks'
 * files. When all have, the ranks are released. */
#ifndef GCK_RESTART_H
#define GCK_RESTART_H

#include "coordinator/core/model/live.h"

/* May a new incarnation of this step start? NULL if so, else the welcome that ends it (`finished`,
 * `refuse`). To be asked before the incarnation is journaled. */
json_t *gck_restart_verdict(struct gck_core *core, const struct gck_step *former,
			    const json_t *fingerprint, const struct gck_options *options);

/* A node has registered and does not run: tell it, or all nodes, how to start, or to wait. */
void gck_restart_decide(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* Some ranks of a former start have ended (remnant.h): a step that waits for them looks again. */
void gck_restart_unfence(struct gck_core *core, struct gck_step *step);

/* The next older commit that a restart may go back to from this one; NULL: none. */
const struct gck_commit *gck_restart_commit_before(const struct gck_step *step, uint32_t seq);

/* Tell a node that the step must not start, because of live->last_error. */
void gck_restart_refuse(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* In the job's output: a job that Slurm does not requeue is not held either. After a welcome. */
void gck_restart_say_not_held(struct gck_core *core, const struct gck_step *step);

/* A new {"op":"welcome", "action":, "job":, "step":, "epoch":, "restarts":}. */
json_t *gck_welcome(const struct gck_core *core, const struct gck_step *step, const char *action);

#endif
