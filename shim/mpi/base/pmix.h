/* SPDX-License-Identifier: Apache-2.0
 * Words exchanged by PMIx's collecting fence, through the real library's own copy of libpmix and no
 * other: a second client in the process would be taken for another rank. */
#ifndef GCK_MPI_PMIX_H
#define GCK_MPI_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/base/participant.h"

/* Find libpmix in the namespace; with MPI initialized, by who initialized it: at any other time the
 * program may be in MPI_Finalize, where the real library unloads what is searched. */
void gck_mpi_pmix_bind(void);

/* The real library uses PMIx, and no fence of this step has failed. */
bool gck_mpi_pmix_usable(void);

/* Put this rank's words and begin a fence over all ranks of the job, which must all be about to.
 * One at a time. serial tells its data from those of an earlier fence. */
int gck_mpi_pmix_begin(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err);

/* 1: the fence is over; all[0..nranks) are filled, and live until the next begin. 0: not yet, after
 * ms. A fence that was begun and whose end nobody waits for cannot be taken back: call give_up. */
int gck_mpi_pmix_end(int ms, size_t nranks, struct gck_mpi_words *all, struct gck_error *err);

/* PMIx is not used again before the next restart. In any thread, and as often as one likes. */
void gck_mpi_pmix_give_up(void);

/* For MPI_Finalize, in its thread, whose own fence the server would take for one that a quiesce left
 * half done. leave: from here on begin and end fail with ECANCELED; the fence that this rank has
 * entered and that is not over, or 0. join: all ranks' part in the one that any of them has entered,
 * so that it ends. give_up comes last: then nobody calls libpmix, which is about to be unloaded. */
uint64_t gck_mpi_pmix_leave(void);
void gck_mpi_pmix_join(uint64_t serial);

/* After a restart: there is a new server, and a fresh libpmix. */
void gck_mpi_pmix_restart(void);

#endif
