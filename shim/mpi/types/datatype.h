/* SPDX-License-Identifier: Apache-2.0
 * Datatypes. The real library keeps their descriptions; at a checkpoint each is read out of it as a
 * recipe (recipe.h), from which it is made again. */
#ifndef GCK_MPI_DATATYPE_H
#define GCK_MPI_DATATYPE_H

#include "shim/mpi/handles/handle.h"

/* Ours for a type that the real library returned: a predefined one, one that lives, or else a new
 * handle for it, which then owns it (file views, contents). NULL: no memory. In the gate. */
MPI_Datatype gck_mpi_type_of_real(MPI_Datatype real);

/* The real library holds on to a type that a pending operation, a view or a persistent request
 * names, though the program frees it; so must we, for a restart makes all of these again: between
 * hold and release the handle and its real type live. In the gate. */
void gck_mpi_type_ref_made(MPI_Datatype type);
void gck_mpi_type_unref_made(MPI_Datatype type);

static inline void gck_mpi_type_ref(MPI_Datatype type)
{
	const struct gck_mpi_handle *h = (const void *)type;

	if (h && !(h->flags & GCK_MPI_PREDEFINED))
		gck_mpi_type_ref_made(type);
}

static inline void gck_mpi_type_unref(MPI_Datatype type)
{
	const struct gck_mpi_handle *h = (const void *)type;

	if (h && !(h->flags & GCK_MPI_PREDEFINED))
		gck_mpi_type_unref_made(type);
}

#endif
