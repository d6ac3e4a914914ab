/* SPDX-License-Identifier: Apache-2.0
 * Attributes that MPI itself sets, and MPI_TAG_UB. */
#ifndef GCK_MPI_ATTRIBUTE_PREDEFINED_H
#define GCK_MPI_ATTRIBUTE_PREDEFINED_H

#include <mpi.h>
#include <stdbool.h>

/* The predefined attributes of a window. base is what the program's MPI_WIN_BASE says. */
int gck_mpi_attributes_of_win(void *win, void *base, MPI_Aint size, int disp_unit, int flavor,
			      int model);

/* MPI_COMM_WORLD's predefined attributes, from the real library, when first they are needed. */
int gck_mpi_attributes_of_world(void);

/* Some calls of the real library (MPI_Intercomm_create, MPI_Comm_create_group) send messages with the
 * tag that they are given, on a communicator of the program's. They are told apart by tags above the
 * program's MPI_TAG_UB, which is half of the real one: sends of the program with such a tag fail.
 * take: asks the real library, right after its MPI_Init; an MPI error. own_tag: the one for a
 * program's tag; one that is wrong stays as it is. */
extern int gck_mpi_tag_ub;
int gck_mpi_tag_ub_take(void);
int gck_mpi_own_tag(int tag);

/* A send with it is refused: a quiesce would leave its message where it is. */
static inline bool gck_mpi_tag_is_own(int tag)
{
	return tag > gck_mpi_tag_ub;
}

#endif
