/* SPDX-License-Identifier: Apache-2.0
 * Datatypes. The real library stores their descriptions. A checkpoint reads each as a recipe, from
 * which a restart makes it again (datatype_restart.c). */
#ifndef GCK_MPI_DATATYPE_H
#define GCK_MPI_DATATYPE_H

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

/* The stand-in's handle for a datatype that the real library returned (file views, contents): a
 * predefined or live one, or else a new handle, which owns the real datatype. NULL: no memory.
 * Called in the gate. */
GCK_MUST_CHECK MPI_Datatype gck_mpi_type_of_real(MPI_Datatype real);

/* References by pending operations, views and persistent requests. The real library keeps their
 * datatypes after the program frees them, and a restart makes these objects again, so the handle
 * and its real datatype live until the last unref. Called in the gate. */
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
