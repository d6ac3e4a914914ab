/* SPDX-License-Identifier: Apache-2.0
 * This rank's collective clock: ids, entries that have to wait, and what the quiesce asks of it. */
#include "config.h"

#include "shim/mpi/comm/clock.h"

#include "shim/mpi/base/gate.h"
#include "shim/mpi/collective/comm_free.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/init/init.h"

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

/* The wait is outside of the gate, so that the next round finds nobody inside. */
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

/* ---- the quiesce ---------------------------------------------------------------------------- */

#define MEETING_MS 1

/* Who is still on its way out of a meeting would call those back to it who have left it. */
static bool is_out(void)
{
	return gck_mpi_clocks.meetings ? gck_mpi_gate_wait_empty(MEETING_MS) : gck_mpi_gate_empty();
}

static int put(struct gck_mpi_blob *b, struct gck_error *err)
{
	bool out = is_out();
	size_t active = 0, open = 0;

	/* requests are the program's while it is inside: there will be another round then */
	if (out && gck_mpi_running()) {
		gck_mpi_comm_sweep();
		open = gck_mpi_nonblocking_open(&active);
	}
	return gck_mpi_clocks_put(&gck_mpi_clocks, b, out, active, open, err);
}

static int judge(const struct gck_mpi_words *all, size_t nranks, struct gck_error *err)
{
	int self = gck_mpi_comm_of(MPI_COMM_WORLD)->rank;

	return gck_mpi_clocks_judge(&gck_mpi_clocks, all, nranks, self, err);
}

static bool behind(void)
{
	return gck_mpi_clocks_behind(&gck_mpi_clocks);
}

static bool settled(void)
{
	return gck_mpi_clocks_settled(&gck_mpi_clocks);
}

static bool done(void)
{
	return gck_mpi_gate_empty() && gck_mpi_nonblocking_open(NULL) == 0;
}

static void over(void)
{
	gck_mpi_clocks_resume(&gck_mpi_clocks);
}

const struct gck_mpi_owed gck_mpi_clock_owed = {
	.name = "collectives",
	.put = put,
	.judge = judge,
	.behind = behind,
	.settled = settled,
	.step = gck_mpi_nonblocking_step,
	.done = done,
	.over = over,
};
