/* SPDX-License-Identifier: Apache-2.0
 * The topology of a communicator: read out of the real library, and put on a communicator made anew. */
#ifndef GCK_MPI_TOPOLOGY_H
#define GCK_MPI_TOPOLOGY_H

#include <mpi.h>

struct gck_mpi_topology;

/* Of a real communicator: *t, from malloc, is NULL if it has none. An MPI error code. */
int gck_mpi_topology_save(MPI_Comm real, struct gck_mpi_topology **t);

/* A real communicator like `plain`, ranks in the same order, with the topology; collective over
 * `plain`, which stays. An MPI error code. */
int gck_mpi_topology_make(const struct gck_mpi_topology *t, MPI_Comm plain, MPI_Comm *real);

#endif
