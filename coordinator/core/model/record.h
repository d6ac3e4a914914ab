/* SPDX-License-Identifier: Apache-2.0
 * Records: JSON objects that change the state (state.h). "t" is the type:
 *
 *   epoch {epoch, time, doubt}               a coordinator started
 *   job {job, uid, user, restarts, submit, batch, fresh, until_ms, nodes}
 *                                            an incarnation of a job; fresh: another job's id;
 *                                            the rest is as in remnants
 *   gone {job}                               Slurm no longer knows it
 *   requeue {job, value}                     slurm_requeue is about to be called (or failed)
 *   remnants {job, until_ms, nodes:[{step, node, name}]}
 *                                            there its former starts may still run, until then
 *   step {job, step, uid, restarts, nodes, ntasks, store, options, fingerprint}
 *                                            an incarnation of a step; without uid: the job's
 *   restore {job, step, seq}                 the commit that its restart tries
 *   run {job, step, seq, ms}                 its start is decided: from this commit, cold if 0;
 *                                            ms: its ranks were let go then
 *   failed {job, step, seq, all, same, spent, aside, time, why}
 *                                            a restart from this commit failed, for the all-th
 *                                            time; aside: the commit is set aside
 *   held {job, step, time, why}              the job was requeued and held
 *   damaged {job, step, seq}                 nothing is restarted from this commit again
 *   exit {job, step, rank, status}           a rank ended
 *   bye {job, step, node}                    no rank is left on this node (number in the step)
 *   finished {job, step}                     all ranks ended with status 0: never run again
 *   intent {job, step, seq, nonce, held, reason, import, info}
 *                                            a checkpoint begins, or an import to directories
 *   committing {job, step, seq, info}        all images are complete; the commit object may exist
 *   commit {job, step, seq, restarts, hash, time, keep, abandoned, aside, info}
 *                                            the checkpoint is valid; keep commits stay (0: all)
 *   abort {job, step, seq, why, unheard}     the checkpoint or import was given up; unheard: the
 *                                            commit object may exist
 *   seq {job, step, seq, listed}             numbers up to this are used; listed: the store was
 *                                            read
 *   disable {job, step, value}
 *   remove {job, step, seqs, removals}       these are forgotten; their store must be swept
 *   swept {job, step, removals}              the store is swept, up to this removal */
#ifndef GCK_RECORD_H
#define GCK_RECORD_H

#include "common/base/error.h"
#include "coordinator/core/model/state.h"

/* Apply a record. -1: it is invalid in this state, which is unchanged. */
GCK_MUST_CHECK int gck_record_apply(struct gck_state *s, const json_t *record,
				    struct gck_error *err);

/* The fewest records that make this state from an empty one: a new array. */
json_t *gck_state_dump(const struct gck_state *s);

#endif
