/* SPDX-License-Identifier: Apache-2.0
 * Attributes that MPI itself sets, and MPI_TAG_UB. */
#ifndef GCK_MPI_ATTRIBUTE_PREDEFINED_H
#define GCK_MPI_ATTRIBUTE_PREDEFINED_H

#include <mpi.h>
#include <stdbool.h>

#include "common/base/error.h"

/* Sets the predefined attributes of a new window; base is the value of MPI_WIN_BASE. Returns an MPI
 * error code. */
GCK_MUST_CHECK int gck_mpi_attributes_of_win(void *win, void *base, MPI_Aint size, int disp_unit,
					     int flavor, int model);

/* Reads MPI_COMM_WORLD's predefined attributes from the real library on the first call. Returns an
 * MPI error code. */
GCK_MUST_CHECK int gck_mpi_attributes_of_world(void);

/* Some calls of the real library (MPI_Intercomm_create, MPI_Comm_create_group) send messages with
 * the tag that they are given, on the program's communicator. The stand-in gives them tags above
 * the program's MPI_TAG_UB, which is half of the real one. The program's sends with such a tag
 * fail. gck_mpi_tag_ub_take reads the real value right after the real MPI_Init and returns an MPI
 * error code; gck_mpi_own_tag maps a program's tag to one above the limit, an invalid tag to
 * itself. */
extern int gck_mpi_tag_ub;
GCK_MUST_CHECK int gck_mpi_tag_ub_take(void);
int gck_mpi_own_tag(int tag);

/* Sends with such a tag are refused because a quiesce would not flush their messages. */
static inline bool gck_mpi_tag_is_own(int tag)
{
	return tag > gck_mpi_tag_ub;
}

#endif
