/* SPDX-License-Identifier: Apache-2.0
 * Bringing all ranks of an MPI job to a place where nothing is under way between them, and MPI back
 * to life after a restart. Runs in the MPI thread (base/mpi_thread.h). */
#ifndef GCK_MPI_QUIESCE_H
#define GCK_MPI_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/base/allgather.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/base/participant.h"

/* Close the gate, and exchange and judge rounds until every part is settled and no thread of any
 * rank is inside the real library; then every part saves what only that library knows. until_ns
 * (CLOCK_MONOTONIC): by then a rank that cannot be caught is given up, ETIMEDOUT naming it and the
 * place where it is. After it, failed or not, gck_mpi_resume opens the gate. */
int gck_mpi_quiesce(struct gck_mpi_allgather *x, int64_t until_ns, struct gck_error *err);

/* The same for a rank that is before MPI_Init or past MPI_Finalize: no other rank is asked. Closes
 * the gate, waits for it to be empty and saves what there is outside of MPI; called_off is asked
 * now and then meanwhile, and says why (-1) if it is. 1: the program has come to MPI_Init
 * meanwhile; nothing is done, and the gate is open. */
int gck_mpi_quiesce_outside(struct gck_mpi_thread_state *k, int64_t until_ns,
			    int (*called_off)(void *arg, struct gck_error *err), void *arg,
			    struct gck_error *err);

/* In a process whose real library is dead (restored without it): discard that and load a fresh
 * one. In a rank that is inside MPI, initialise it in the new step, of which the program's
 * environment tells since the restore. Make all objects again. The gate stays closed. */
int gck_mpi_rebuild(bool inside, struct gck_error *err);

/* Everything that stands in the way, of all parts. */
void gck_mpi_able(void (*tell)(void *arg, const char *object, const char *reason,
			       const char *remedy), void *arg);

/* All parts' save and rebuild; outside: in a rank that is not inside MPI. */
int gck_mpi_participants_save(bool outside, struct gck_error *err);
int gck_mpi_participants_rebuild(bool outside, struct gck_error *err);

/* Tells all that take part in the rounds that the quiesce is over. */
void gck_mpi_pendings_over(void);

/* The gate opens: the program may call MPI again. */
void gck_mpi_resume(void);

/* The agent asks for a quiesce. Returns when the gate is open again, or the process was restored:
 * true. */
bool gck_mpi_serve_quiesce(struct gck_mpi_thread_state *k, const struct gck_inside_message *m);

/* A quiesce has failed here. Another rank may wait for its windows until this rank's library is
 * called, and cannot learn before that the quiesce is called off there as well. */
void gck_mpi_peer_progress_begin(struct gck_mpi_thread_state *k);

/* Calls the library once if that is needed and allowed. Returns how long to wait until the next
 * time: ms at most. */
int gck_mpi_peer_progress(struct gck_mpi_thread_state *k, int ms);
/* Pauses for ms and makes that progress meanwhile. */
void gck_mpi_peer_progress_for(struct gck_mpi_thread_state *k, int ms);

#endif
