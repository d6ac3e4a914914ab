/* SPDX-License-Identifier: Apache-2.0
 * Processes of other worlds. They work, but the standard ties them to live processes, so no
 * checkpoint is possible while a communicator with them exists. */
#ifndef GCK_MPI_DYNAMIC_H
#define GCK_MPI_DYNAMIC_H

#include "shim/mpi/base/participant.h"

/* Called by MPI_Init: makes a handle for the parent of a spawned world. -1: no memory. */
GCK_MUST_CHECK int gck_mpi_dynamic_init(struct gck_error *err);

/* Reports open ports. May run at any time. */
void gck_mpi_dynamic_report_ports(gck_mpi_obstacle_fn *report, void *arg);

#endif
