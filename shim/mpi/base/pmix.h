/* SPDX-License-Identifier: Apache-2.0
 * Exchange of words by PMIx's collecting fence. It uses the real library's own copy of libpmix: the
 * server would take a second client in the process for another rank. */
#ifndef GCK_MPI_PMIX_H
#define GCK_MPI_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/base/participant.h"

/* The end of messages of PMIx's failures. Their code is EAGAIN: after give_up the next try needs no
 * PMIx. */
#define GCK_MPI_PMIX_AGAIN "try again; the ranks' words then go through the coordinator"

/* Finds libpmix in the namespace. Only the thread that has just initialized MPI may call it: later
 * the program may be in MPI_Finalize, where the real library unloads what is searched. */
void gck_mpi_pmix_bind(void);

/* True if the real library uses PMIx and no fence of this step has failed. */
bool gck_mpi_pmix_usable(void);

/* Puts this rank's words and begins a fence over all ranks of the job, which must all do the same.
 * One fence at a time. serial distinguishes its data from an earlier fence's. */
GCK_MUST_CHECK int gck_mpi_pmix_begin(uint64_t serial, const struct gck_mpi_blob *mine,
				      struct gck_error *err);

/* Waits up to ms for the fence. 1: it has ended, and all[0..nranks) is filled and valid until the
 * next begin; 0: not yet. A fence cannot be cancelled: who stops waiting must call give_up. */
GCK_MUST_CHECK int gck_mpi_pmix_end(int ms, size_t nranks, struct gck_mpi_words *all,
				    struct gck_error *err);

/* Stops the use of PMIx until the next restart. Any thread may call it, repeatedly. */
void gck_mpi_pmix_give_up(void);

/* For MPI_Finalize, in its thread: the server would take MPI_Finalize's own fence for one that a
 * quiesce left half done. leave makes begin and end fail with ECANCELED and returns the fence that
 * this rank has entered and that has not ended, or 0. In join every rank enters the fence that any
 * rank has entered, so that it ends. give_up comes last: libpmix is about to be unloaded. */
GCK_MUST_CHECK uint64_t gck_mpi_pmix_leave(void);
void gck_mpi_pmix_join(uint64_t serial);

/* Resets the state after a restart, which has a new server and a fresh libpmix. */
void gck_mpi_pmix_restart(void);

#endif
