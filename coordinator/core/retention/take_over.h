/* SPDX-License-Identifier: Apache-2.0
 * Commits that a store has and the journal lacks, because an older copy of it was put back, or it
 * was lost. They are taken over from a list of the store: of a step that registers, from its
 * agent's; of all others, from gpuckptd's own look into the stores at its start
 * (daemon/objects/scan.c).
 *
 * An entry of a list is {"seq","hash","fingerprint"}, and as far as it is known also "restarts",
 * "time", "from" (the commit that the incarnation was restored from; 0: none) and "info". */
#ifndef GCK_TAKE_OVER_H
#define GCK_TAKE_OVER_H

#include "coordinator/core/model/core.h"

#define GCK_TAKE_OVER_MOST 1000 /* commits of a step, as many as keep= may ask for */

/* Is this commit one that the journal lacks? It gave the numbers up to last: those that it does not
 * list were aborted or removed. The open one may have been committed when the journal ended; if a
 * checkpoint is under way, that ends by its phase. An aborted one may have been, if nobody was
 * there to tell. */
bool gck_take_over_lacks(const struct gck_step *step, uint32_t seq, uint32_t last);

/* Take over what the journal lacks of a list of the step's store, if it is the same program's:
 * Slurm reuses job ids, and scripts change. restarts: the incarnation of entries that do not tell
 * it. Returns the number of commits that were taken over. *foreign (may be NULL): there were others
 * of another program. */
unsigned gck_take_over(struct gck_core *core, struct gck_step *step, const json_t *commits,
		       uint32_t restarts, bool *foreign);

/* The numbers in the list are never given again. */
void gck_take_over_numbers(struct gck_core *core, struct gck_step *step, const json_t *commits);

/* Take over a step that was found in a store: {"uid","user","job","step","store","ntasks","nodes",
 * "fingerprint" (an object), "commits" (ascending), "kept": which of the journal's it has}.
 * slurm: what Slurm knows of the job now ({"uid","restarts","submit","batch","busy"}); NULL:
 * nothing. A step that the journal lacks is journaled. If it lacked commits, it is an older copy:
 * those that it has and the store has no longer are forgotten.
 *
 * Returns the number of commits that were taken over. -1: EAGAIN (the job is busy: its agents take
 * over what is theirs, and the rest can be when it has ended), or why the step is not taken. */
int gck_take_over_step(struct gck_core *core, const json_t *found, const json_t *slurm,
		       struct gck_error *err) GCK_MUST_CHECK;

#endif
