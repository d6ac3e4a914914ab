/* SPDX-License-Identifier: Apache-2.0
 * Processes of other worlds. The standard ties them to live processes: they work, and while they do
 * there is no checkpoint. */
#ifndef GCK_MPI_DYNAMIC_H
#define GCK_MPI_DYNAMIC_H

#include "shim/mpi/base/participant.h"

/* In MPI_Init: a handle for the parent of a spawned world. -1: no memory. */
int gck_mpi_dynamic_init(struct gck_error *err);

/* Names open ports. May run at any time. */
void gck_mpi_dynamic_able(gck_mpi_obstacle_fn *tell, void *arg);

#endif
