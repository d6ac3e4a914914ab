/* SPDX-License-Identifier: Apache-2.0
 * Communicators that this rank has freed and done with, while another rank has operations pending on
 * them: at a restart that rank needs all of their members to make them again. */
#ifndef GCK_MPI_COMM_LOST_H
#define GCK_MPI_COMM_LOST_H

#include "shim/mpi/comm.h"

/* As told in the last round. handle is NULL. */
struct gck_mpi_comm *gck_mpi_comm_lost_first(void);
struct gck_mpi_comm *gck_mpi_comm_lost_next(struct gck_mpi_comm *c);

#endif
