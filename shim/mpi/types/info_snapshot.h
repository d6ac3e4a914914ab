/* SPDX-License-Identifier: Apache-2.0
 * Copies of the keys and values of a real info, for a restart. */
#ifndef GCK_MPI_INFO_SNAPSHOT_H
#define GCK_MPI_INFO_SNAPSHOT_H

#include <mpi.h>

struct gck_mpi_info_snapshot;

/* Copies the keys and values of a real info and frees the info. *hints is NULL if it has no keys.
 * Returns an MPI error code. */
int gck_mpi_info_snapshot_save(MPI_Info real, struct gck_mpi_info_snapshot **hints);

/* Makes a real info with the keys and values, for the caller to free. Returns an MPI error code. */
int gck_mpi_info_snapshot_make(const struct gck_mpi_info_snapshot *hints, MPI_Info *real);

void gck_mpi_info_snapshot_free(struct gck_mpi_info_snapshot *hints);

#endif
