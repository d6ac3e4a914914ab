/* SPDX-License-Identifier: Apache-2.0
 * Keys and values that the real library keeps with an object of its own. */
#ifndef GCK_MPI_INFO_SNAPSHOT_H
#define GCK_MPI_INFO_SNAPSHOT_H

#include <mpi.h>

struct gck_mpi_info_snapshot;

/* Of a real info, which is freed; NULL in *hints if it has no keys. An MPI error code. */
int gck_mpi_info_snapshot_save(MPI_Info real, struct gck_mpi_info_snapshot **hints);

/* A new real info with them, for the caller to free. */
int gck_mpi_info_snapshot_make(const struct gck_mpi_info_snapshot *hints, MPI_Info *real);

void gck_mpi_info_snapshot_free(struct gck_mpi_info_snapshot *hints);

#endif
