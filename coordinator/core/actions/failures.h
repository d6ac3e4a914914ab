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

/* The job was requeued and held. */
void gck_failure_held(struct gck_core *core, const struct gck_step *step, const char *why);

#endif
