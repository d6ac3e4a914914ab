/* SPDX-License-Identifier: Apache-2.0
 * Reduction operations that the program made. */
#ifndef GCK_MPI_OP_H
#define GCK_MPI_OP_H

#include "common/base/error.h"
#include "shim/mpi/base/language.h"
#include "shim/mpi/handles/handle.h"

/* Implements MPI_Op_create for a function of either language. Called in the gate; returns an MPI
 * error code. */
GCK_MUST_CHECK int gck_mpi_op_create(void (*function)(void), enum gck_mpi_language language,
				     int commute, MPI_Op *op);

/* As gck_mpi_type_ref: references by pending and persistent requests, which the program's
 * MPI_Op_free does not end. Called in the gate. */
void gck_mpi_op_ref_made(MPI_Op op);
void gck_mpi_op_unref_made(MPI_Op op);

static inline void gck_mpi_op_ref(MPI_Op op)
{
	const struct gck_mpi_handle *h = (const void *)op;

	if (h && !(h->flags & GCK_MPI_PREDEFINED))
		gck_mpi_op_ref_made(op);
}

static inline void gck_mpi_op_unref(MPI_Op op)
{
	const struct gck_mpi_handle *h = (const void *)op;

	if (h && !(h->flags & GCK_MPI_PREDEFINED))
		gck_mpi_op_unref_made(op);
}

/* Marks the operation as one of Open MPI's C++ bindings, which calls their function cxx. */
void gck_mpi_op_set_cxx(MPI_Op op, void (*cxx)(void));

#endif
