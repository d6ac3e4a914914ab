/* SPDX-License-Identifier: Apache-2.0
 * The collective clocks of this rank: ids, and entries that wait. */
#include "config.h"

#include "shim/mpi/comm/clock_rounds.h"

#include "shim/mpi/base/gate.h"

struct gck_mpi_clocks gck_mpi_clocks = GCK_MPI_CLOCKS_INIT;

uint64_t gck_mpi_members_hash(const int *ranks, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++)
		h = gck_mpi_mix(h, (uint64_t)ranks[i] + 1);
	return h;
}

uint64_t gck_mpi_clock_child(const struct gck_mpi_clock *c)
{
	return gck_mpi_mix(c->id, c->blocking + 1);
}

void gck_mpi_clock_add(struct gck_mpi_clock *c)
{
	gck_mpi_clocks_add(&gck_mpi_clocks, c);
}

void gck_mpi_clock_remove(struct gck_mpi_clock *c)
{
	gck_mpi_clocks_remove(&gck_mpi_clocks, c);
}

void gck_mpi_clock_meet(struct gck_mpi_meeting *m)
{
	gck_mpi_clocks_meet(&gck_mpi_clocks, m);
}

void gck_mpi_clock_part(struct gck_mpi_meeting *m)
{
	gck_mpi_clocks_part(&gck_mpi_clocks, m);
}

/* Waits outside the gate, so that the next round finds no thread inside. */
void gck_mpi_clock_ask(void)
{
	struct gck_mpi_clocks *s = &gck_mpi_clocks;

	if (!gck_mpi_may_park())
		return;
	pthread_mutex_lock(&s->lock);
	while (!gck_mpi_clocks_may_enter(s)) {
		gck_mpi_leave();
		pthread_cond_wait(&s->changed, &s->lock);
		pthread_mutex_unlock(&s->lock);
		gck_mpi_enter_as(gck_mpi_thread->function);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
}
