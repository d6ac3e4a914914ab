/* SPDX-License-Identifier: Apache-2.0
 * Records: JSON objects that change the state (state.h). "t" is the type:
 *
 *   epoch {epoch, time}                      a coordinator started
 *   job {job, uid, user, restarts, submit, batch, fresh}
 *                                            an incarnation of a job; fresh: another job's id
 *   gone {job}                               Slurm no longer knows it
 *   requeue {job, value}                     slurm_requeue is about to be called (or was refused)
 *   step {job, step, uid, restarts, nodes, ntasks, store, options, fingerprint}
 *                                            an incarnation of a step; uid: of the job, unless it says
 *   restore {job, step, seq}                 the commit that its restart tries
 *   run {job, step, seq}                     its start is decided: from this commit, cold if 0
 *   damaged {job, step, seq}                 nothing is restarted from this commit again
 *   exit {job, step, rank, status}           a rank ended
 *   bye {job, step, node}                    no rank is left on this node, by its place in the step
 *   finished {job, step}                     all ended with status 0: not to be run again
 *   intent {job, step, seq, nonce, held, reason, import, info}
 *                                            a checkpoint begins, or an import into these directories
 *   committing {job, step, seq, info}        all images are whole; the commit object may exist
 *   commit {job, step, seq, restarts, hash, time, keep, abandoned, info}
 *                                            it counts; only the best keep (0: all) are kept
 *   abort {job, step, seq, why}              it never counts
 *   seq {job, step, seq}                     numbers up to this were given
 *   disable {job, step, value}
 *   remove {job, step, seqs, removals}       these are forgotten; what they left is not swept yet
 *   swept {job, step, removals}              it is, as far as that remove */
#ifndef GCK_RECORD_H
#define GCK_RECORD_H

#include "common/base/error.h"
#include "coordinator/core/model/state.h"

/* Change the state. -1 with the state unchanged if the record makes no sense there. */
int gck_record_apply(struct gck_state *s, const json_t *record, struct gck_error *err);

/* The fewest records that make this state out of an empty one: a new array. */
json_t *gck_state_dump(const struct gck_state *s);

#endif
