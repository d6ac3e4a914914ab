/* SPDX-License-Identifier: Apache-2.0
 * Progress for other ranks. Where windows are implemented in software, MPI_Win_flush ends only
 * when the target's library is called. In a quiesce all MPI threads call it, so no flush waits for
 * a program. A rank that leaves the quiesce before another one and then computes therefore goes on
 * calling it for a moment. */
#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/quiesce/quiesce.h"

#define PROGRESS_NS 3000000000ll /* by then the other ranks know as well and begin no flush */
#define PROGRESS_MS 1

void gck_mpi_peer_progress_begin(struct gck_mpi_thread_state *k)
{
	if (gck_mpi_first(GCK_MPI_WIN))
		k->progress_until_ns = gck_mpi_now_ns() + PROGRESS_NS;
}

/* A program that is inside the library makes progress itself. */
int gck_mpi_peer_progress(struct gck_mpi_thread_state *k, int ms)
{
	if (gck_mpi_now_ns() >= k->progress_until_ns)
		return ms;
	gck_mpi_gate_close();
	if (gck_mpi_gate_empty() && gck_mpi_running())
		gck_mpi_progress();
	gck_mpi_gate_open();
	return ms < PROGRESS_MS ? ms : PROGRESS_MS;
}

void gck_mpi_peer_progress_for(struct gck_mpi_thread_state *k, int ms)
{
	int64_t end = gck_mpi_now_ns() + ms * 1000000ll, left;

	while (!gck_mpi_thread_stopping(k) && (left = end - gck_mpi_now_ns()) > 0)
		gck_mpi_thread_pause(k, gck_mpi_peer_progress(k, 1 + (int)(left / 1000000)));
}
