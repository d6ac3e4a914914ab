/* SPDX-License-Identifier: Apache-2.0
 * The quiesce brings all ranks of an MPI job to a point where nothing is under way between them;
 * the rebuild restores MPI after a restart. Both run in the MPI thread (base/mpi_thread.h). */
#ifndef GCK_MPI_QUIESCE_H
#define GCK_MPI_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/base/allgather.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/base/participant.h"

/* Closes the gate and runs rounds until every part is settled and no thread of any rank is inside
 * the real library; then every part saves what only that library knows. Past deadline_ns
 * (CLOCK_MONOTONIC) it fails with ETIMEDOUT and names the rank at fault and its MPI call. The gate
 * stays closed, also on failure, until gck_mpi_resume. */
GCK_MUST_CHECK int gck_mpi_quiesce(struct gck_mpi_allgather *x, int64_t deadline_ns,
				   struct gck_error *err);

/* The same for a rank before MPI_Init or past MPI_Finalize, without other ranks. Closes the gate,
 * waits until it is empty and saves the objects that live outside MPI. While it waits it calls
 * called_off, which returns -1 with the reason if the quiesce is called off. 1: the program has
 * reached MPI_Init meanwhile; nothing was saved, and the gate is open. */
GCK_MUST_CHECK int
gck_mpi_quiesce_uninitialized(struct gck_mpi_thread_state *k, int64_t deadline_ns,
			      int (*called_off)(void *arg, struct gck_error *err), void *arg,
			      struct gck_error *err);

/* In a process that was restored without its real library: discards the dead copy, loads a fresh
 * one and makes all objects again. inside: the rank is inside MPI, so the library is initialised in
 * the new step, which the restored environment describes. The gate stays closed. */
GCK_MUST_CHECK int gck_mpi_rebuild(bool initialized, struct gck_error *err);

/* Reports the obstacles of all participants. */
void gck_mpi_report_obstacles(gck_mpi_obstacle_fn *report, void *arg);

/* Calls all participants' save. uninitialized: the rank is not inside MPI. */
GCK_MUST_CHECK int gck_mpi_participants_save(bool uninitialized, struct gck_error *err);

/* Tells all parts of the rounds that the quiesce is over. */
void gck_mpi_rounds_end(void);

/* Opens the gate: the program may call MPI again. */
void gck_mpi_resume(void);

/* Serves the agent's QUIESCE. Returns false when the gate is open again, true if the process was
 * restored from an image. */
GCK_MUST_CHECK bool gck_mpi_serve_quiesce(struct gck_mpi_thread_state *k,
					  const struct gck_inside_message *m);

/* Begins progress for other ranks after a quiesce failed here: an RMA call of another rank may wait
 * until this rank's library is called, and that rank learns of the failure only afterwards. */
void gck_mpi_peer_progress_begin(struct gck_mpi_thread_state *k);

/* Calls the library once if that is needed and allowed. Returns the wait until the next call, at
 * most ms. */
int gck_mpi_peer_progress(struct gck_mpi_thread_state *k, int ms);
/* Pauses for ms and makes that progress. */
void gck_mpi_peer_progress_for(struct gck_mpi_thread_state *k, int ms);

#endif
