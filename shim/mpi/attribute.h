/* SPDX-License-Identifier: Apache-2.0
 * Attributes of communicators, datatypes and windows: wholly ours. Callbacks are the program's code:
 * call these outside the gate (before gck_mpi_enter or after gck_mpi_leave). */
#ifndef GCK_MPI_ATTRIBUTE_H
#define GCK_MPI_ATTRIBUTE_H

#include "shim/mpi/handle.h"

/* MPI_Comm_dup and its kin, MPI_Type_dup: runs the copy callbacks of from's attributes, newest
 * first. On an error the new object is to be freed (its attributes first) and the code returned. */
int gck_mpi_attributes_copy(void *to, const void *from);

/* Before an object is freed: runs the delete callbacks, newest first. An error means that the
 * object stays; its code is what the call returns. Finalize does it for MPI_COMM_SELF. */
int gck_mpi_attributes_delete(void *handle);

/* The predefined attributes of a window. base is what the program's MPI_WIN_BASE says. */
int gck_mpi_attributes_of_win(void *win, void *base, MPI_Aint size, int disp_unit, int flavor,
			      int model);

#endif
