/* SPDX-License-Identifier: Apache-2.0
 * One rank's side of the rounds of the collective clock, for the quiesce and the model test. */
#ifndef GCK_MPI_CLOCK_ROUNDS_H
#define GCK_MPI_CLOCK_ROUNDS_H

#include "common/base/error.h"
#include "shim/mpi/base/allgather.h"
#include "shim/mpi/comm/clock.h"

#define GCK_MPI_CLOCKS_INIT \
	{ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

void gck_mpi_clocks_add(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_remove(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_meet(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m);
void gck_mpi_clocks_part(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m);

/* Writes this rank's words for a round to b and limits ticks from now on. out: no thread is in the
 * real library; active: non-blocking collectives in progress; open: those of them that must
 * finish. */
GCK_MUST_CHECK int gck_mpi_clocks_put(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out,
				      size_t active, size_t open, struct gck_error *err);
/* Reads all ranks' words (self: this rank) and sets the targets. -1: no memory or wrong words. */
GCK_MUST_CHECK int gck_mpi_clocks_judge(struct gck_mpi_clocks *s, const struct gck_mpi_words *all,
					size_t nranks, size_t self, struct gck_error *err);

/* True while this rank's program must or may run. */
bool gck_mpi_clocks_behind(struct gck_mpi_clocks *s);

/* True if the last round found all collectives complete or restartable. */
bool gck_mpi_clocks_settled(struct gck_mpi_clocks *s);

/* True if a thread may enter one more collective; uses up one permitted entry. The caller holds
 * s->lock. */
GCK_MUST_CHECK bool gck_mpi_clocks_may_enter(struct gck_mpi_clocks *s);

/* Ends the limits after a checkpoint or its cancellation. */
void gck_mpi_clocks_resume(struct gck_mpi_clocks *s);

#endif
