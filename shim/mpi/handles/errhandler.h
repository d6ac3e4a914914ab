/* SPDX-License-Identifier: Apache-2.0
 * Error handlers: wholly ours. A made one lives until nobody refers to it: the program's handles
 * (one for each time that it was created or got) and the objects that it is attached to. */
#ifndef GCK_MPI_ERRHANDLER_H
#define GCK_MPI_ERRHANDLER_H

#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"

/* A new one for objects of a kind (COMM, WIN, FILE); NULL: no memory. */
MPI_Errhandler gck_mpi_errhandler_new(enum gck_mpi_kind of, enum gck_mpi_language language,
				      void (*function)(void));

void gck_mpi_errhandler_release(MPI_Errhandler errhandler);

#endif
