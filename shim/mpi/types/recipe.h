/* SPDX-License-Identifier: Apache-2.0
 * A datatype's description in our memory: how it was made, down to predefined types. What is not
 * in it is whether it was committed, its name and its attributes. */
#ifndef GCK_MPI_RECIPE_H
#define GCK_MPI_RECIPE_H

#include <mpi.h>
#include <stdbool.h>

/* What MPI_Type_get_envelope and MPI_Type_get_contents say. */
struct gck_mpi_recipe {
	MPI_Datatype named; /* a predefined type: ours; the rest is unused */
	int combiner;
	int nintegers, naddresses, ntypes;
	int *integers;
	MPI_Aint *addresses;
	struct gck_mpi_recipe **types;
};

/* Read a real type's. An MPI error code; on success *recipe is to be freed by the caller. */
int gck_mpi_recipe_read(MPI_Datatype real, struct gck_mpi_recipe **recipe);

/* Make a real type by it. *owned: the caller frees it (it is not predefined, as those of Fortran 90
 * kinds are in the real library). An MPI error code. */
int gck_mpi_recipe_make(const struct gck_mpi_recipe *recipe, MPI_Datatype *real, bool *owned);

void gck_mpi_recipe_free(struct gck_mpi_recipe *recipe);

#endif
