/* SPDX-License-Identifier: Apache-2.0
 * MPI_Init, MPI_Finalize, and what they are to a restart. */
#ifndef GCK_MPI_INIT_H
#define GCK_MPI_INIT_H

#include "common/base/error.h"

/* In the MPI thread, gate closed, after a fresh copy of the library was loaded and bound: initialise
 * it at the level of the program's own call. What the program made is for the parts to rebuild. */
int gck_mpi_init_again(struct gck_error *err);

#endif
