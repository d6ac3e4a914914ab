/* SPDX-License-Identifier: Apache-2.0
 * Can the stand-in stand in for the real library? Looked at in the file, before anything of the
 * program has run: later there is no way back. */
#ifndef GCK_MPI_COMPATIBILITY_H
#define GCK_MPI_COMPATIBILITY_H

#include "common/base/error.h"

/* Of the file that the program would get for libmpi.so.40. -1: it cannot, and why. 0: it can, or it
 * is not known which file that is (the loader's cache has it). */
int gck_mpi_suits(struct gck_error *err);

#endif
