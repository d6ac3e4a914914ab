/* SPDX-License-Identifier: Apache-2.0
 * Info objects. Each has a real one behind it, so that Open MPI's rules for keys apply. */
#ifndef GCK_MPI_INFO_H
#define GCK_MPI_INFO_H

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

/* The real info for a call. */
#define GCK_MPI_REAL_INFO(h) ((MPI_Info)gck_mpi_real_handle(h, GCK_MPI_INFO))

/* Makes a handle for an info that the real library returned, and which the handle then owns;
 * MPI_INFO_NULL for the null info. NULL: no memory. Called in the gate. */
GCK_MUST_CHECK MPI_Info gck_mpi_info_of_real(MPI_Info real);

/* A copy of the keys and values of a real info, for a restart. */
struct gck_mpi_info_snapshot;

/* Copies the keys and values of a real info and frees the info. *hints is NULL if it has no keys.
 * Returns an MPI error code. */
GCK_MUST_CHECK int gck_mpi_info_snapshot_save(MPI_Info real, struct gck_mpi_info_snapshot **hints);

/* Makes a real info with the keys and values, for the caller to free. Returns an MPI error code. */
GCK_MUST_CHECK int gck_mpi_info_snapshot_make(const struct gck_mpi_info_snapshot *hints,
					      MPI_Info *real);

void gck_mpi_info_snapshot_free(struct gck_mpi_info_snapshot *hints);

#endif
