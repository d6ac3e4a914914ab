/* SPDX-License-Identifier: Apache-2.0
 * Restarts that fail: a commit could not be restored, or the step ended within RestartFailureTime
 * of the moment when its ranks were let go. Failures are counted in the journal.
 *
 * After RestartFailures of them from one commit, for reasons of its own (not those of the store, of
 * a node, or of somebody who ended the step), the commit before is used. If that fails as often, or
 * there is none, the job is held with the reason at its next start. A new commit, or the hold, sets
 * the counts to 0. */
#ifndef GCK_FAILURES_H
#define GCK_FAILURES_H

#include "coordinator/core/model/live.h"

/* The commit cannot be restored now, because of live->error: count that. True if the job is to be
 * requeued to try again, false if it is to be held. */
bool gck_failure_note(struct gck_core *core, struct gck_step *step);

/* A rank has ended. */
void gck_failure_rank_ended(struct gck_core *core, struct gck_step *step, unsigned rank,
			    int status);

/* An agent has left. If none is left, the step has ended. */
void gck_failure_agent_left(struct gck_core *core, struct gck_step *step);

/* A node of a new start has registered, and its step may not start, since it is another one than
 * before; verdict is the welcome that says why. A requeued job is requeued again and held, with the
 * reason: its script would go on, and jobs that depend on it would start. True: Slurm is asked for
 * that; the agent was told, and is to ask again. False: it is to get the verdict: the job need not
 * be held, or Slurm has answered. */
bool gck_failure_refused(struct gck_core *core, struct gck_step *former, struct gck_agent *agent,
			 const json_t *verdict);

/* Slurm counts this start of the step's job as it did one before. The job is requeued, so that the
 * count of the next one is higher. Results as above. */
bool gck_failure_counted_again(struct gck_core *core, const struct gck_step *step,
			       struct gck_agent *agent, uint32_t start);

#endif
