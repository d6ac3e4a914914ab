/* SPDX-License-Identifier: Apache-2.0
 * The collective clock's part in the rounds of a quiesce. */
#include "config.h"

#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/collective/comm_free.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/comm/clock_rounds.h"

#define MEETING_MS 1

/* True if no thread is inside. A thread that is still leaving a meeting would call ranks back that
 * have left it already, so meetings get time to end. */
static bool no_thread_inside(void)
{
	return gck_mpi_clocks.meetings ? gck_mpi_gate_wait_empty(MEETING_MS) : gck_mpi_gate_empty();
}

static int put(struct gck_mpi_blob *b, struct gck_error *err)
{
	bool none_inside = no_thread_inside();
	size_t active = 0, open = 0;

	/* while the program is inside, its threads use the requests; another round follows then */
	if (none_inside && gck_mpi_running()) {
		gck_mpi_comm_reap();
		open = gck_mpi_nonblocking_open(&active);
	}
	return gck_mpi_clocks_put(&gck_mpi_clocks, b, none_inside, active, open, err);
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

const struct gck_mpi_round_ops gck_mpi_clock_round_ops = {
	.name = "collectives",
	.put = put,
	.judge = judge,
	.behind = behind,
	.settled = settled,
	.step = gck_mpi_nonblocking_step,
	.done = done,
	.over = over,
};
