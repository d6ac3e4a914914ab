/* SPDX-License-Identifier: Apache-2.0
 * The real MPI library, for shim/namespace. */
#ifndef GCK_MPI_LIBRARY_H
#define GCK_MPI_LIBRARY_H

#include "shim/namespace/namespace.h"

#define GCK_MPI_LIBRARY "libmpi.so.40"

/* Its file: GPUCKPT_MPI_LIBRARY's, or where the loader would have found it for the program. */
extern const struct gck_namespace_library gck_mpi_library;

#endif
