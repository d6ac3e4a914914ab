/* SPDX-License-Identifier: Apache-2.0
 * What the preload (shim/preload) knows of this process. Without it in the process nothing here is
 * a rank. */
#ifndef GCK_MPI_PRELOAD_H
#define GCK_MPI_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool gck_mpi_preload_is_rank(void);

/* MPI is used from here on, and its state lies there; NULL: no more. */
void gck_mpi_preload_uses(const void *state);

/* Abstract name of the agent's socket; another one after a restart. */
const char *gck_mpi_preload_link(void);

/* How often this process was restored. */
uint32_t gck_mpi_preload_restarts(void);

#endif
