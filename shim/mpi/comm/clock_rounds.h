/* SPDX-License-Identifier: Apache-2.0
 * One rank's side of the rounds of the collective clock, for the quiesce and the model test. */
#ifndef GCK_MPI_CLOCK_ROUNDS_H
#define GCK_MPI_CLOCK_ROUNDS_H

#include "shim/mpi/base/allgather.h"
#include "shim/mpi/comm/clock.h"

#define GCK_MPI_CLOCKS_INIT \
	{ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

void gck_mpi_clocks_add(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_remove(struct gck_mpi_clocks *s, struct gck_mpi_clock *c);
void gck_mpi_clocks_meet(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m);
void gck_mpi_clocks_part(struct gck_mpi_clocks *s, struct gck_mpi_meeting *m);

/* out: no thread is inside the real library; active: non-blocking collectives that are under way;
 * open: those of them that are to be finished. From here on ticks are limited. */
int gck_mpi_clocks_put(struct gck_mpi_clocks *s, struct gck_mpi_blob *b, bool out, size_t active,
		       size_t open, struct gck_error *err);
int gck_mpi_clocks_judge(struct gck_mpi_clocks *s, const struct gck_mpi_words *all, size_t nranks,
			 size_t self, struct gck_error *err);
bool gck_mpi_clocks_behind(struct gck_mpi_clocks *s);
bool gck_mpi_clocks_settled(struct gck_mpi_clocks *s);
/* May a thread enter one more collective now? Takes it off what is allowed. s->lock is held. */
bool gck_mpi_clocks_may_enter(struct gck_mpi_clocks *s);
/* It is over, or called off: ticks wait no more. */
void gck_mpi_clocks_resume(struct gck_mpi_clocks *s);

#endif
