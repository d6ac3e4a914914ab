/* SPDX-License-Identifier: Apache-2.0
 * Datatypes: functions that are not generated. */
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/handles/wrap.h"
#include "shim/mpi/types/datatype.h"
#include "shim/mpi/types/handle_ref.h"

MPI_Datatype gck_mpi_type_of_real(MPI_Datatype real)
{
	struct gck_mpi_handle *h = gck_mpi_wrap(GCK_MPI_DATATYPE, real);

	/* MPI leaves undefined whether such a copy is committed; a restart commits it */
	if (h && !(h->flags & GCK_MPI_PREDEFINED))
		h->flags |= GCK_MPI_COMMITTED;
	return (MPI_Datatype)h;
}

static struct gck_mpi_handle *made_type(MPI_Datatype type)
{
	struct gck_mpi_handle *h = (struct gck_mpi_handle *)type;

	return gck_mpi_is(h, GCK_MPI_DATATYPE) && !(h->flags & GCK_MPI_PREDEFINED) ? h : NULL;
}

GCK_MPI_FUNCTION(Type_commit, (MPI_Datatype *type))
{
	struct gck_mpi_handle *h = type ? made_type(*type) : NULL;
	MPI_Datatype real;
	int rc;

	gck_mpi_enter();
	real = type ? GCK_MPI_REAL_TYPE(*type) : NULL;
	rc = gck_mpi_real.Type_commit(type ? &real : NULL);
	if (rc == MPI_SUCCESS && h)
		h->flags |= GCK_MPI_COMMITTED;
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Type_commit");
}

static void datatype_destroy(struct gck_mpi_handle *h)
{
	MPI_Datatype real = h->real;

	gck_mpi_real.Type_free(&real);
	gck_mpi_handle_free(h);
}

GCK_MPI_FUNCTION(Type_free, (MPI_Datatype *type))
{
	struct gck_mpi_handle *h = type ? made_type(*type) : NULL;
	int rc = h ? gck_mpi_attributes_delete(h) : MPI_ERR_TYPE;

	if (rc != MPI_SUCCESS)
		return gck_mpi_error(NULL, rc, "MPI_Type_free");
	gck_mpi_enter();
	if (gck_mpi_handle_ref_free(h))
		datatype_destroy(h);
	gck_mpi_leave();
	*type = MPI_DATATYPE_NULL;
	return MPI_SUCCESS;
}

void gck_mpi_type_ref_made(MPI_Datatype type)
{
	gck_mpi_handle_ref((struct gck_mpi_handle *)type);
}

void gck_mpi_type_unref_made(MPI_Datatype type)
{
	if (gck_mpi_handle_unref((struct gck_mpi_handle *)type))
		datatype_destroy((struct gck_mpi_handle *)type);
}

GCK_MPI_FUNCTION(Type_dup, (MPI_Datatype type, MPI_Datatype *newtype))
{
	const struct gck_mpi_handle *old = (const struct gck_mpi_handle *)type;
	MPI_Datatype real;
	int rc;

	if (!newtype)
		return gck_mpi_error(NULL, MPI_ERR_TYPE, "MPI_Type_dup");
	gck_mpi_enter();
	rc = gck_mpi_real.Type_dup(GCK_MPI_REAL_TYPE(type), &real);
	gck_mpi_real_out(newtype, real, GCK_MPI_DATATYPE, rc);
	if (rc == MPI_SUCCESS && old->flags & (GCK_MPI_PREDEFINED | GCK_MPI_COMMITTED))
		((struct gck_mpi_handle *)*newtype)->flags |= GCK_MPI_COMMITTED;
	gck_mpi_leave();
	if (rc == MPI_SUCCESS) {
		rc = gck_mpi_attributes_copy(*newtype, type);
		if (rc != MPI_SUCCESS) {
			PMPI_Type_free(newtype);
			rc = MPI_ERR_INTERN; /* as Open MPI does for any error of the callback */
		}
	}
	return gck_mpi_error(NULL, rc, "MPI_Type_dup");
}

/* The real library returns copies of constituents, which the program frees. */
static int get_contents(MPI_Datatype real, int max_integers, int max_addresses, int max_datatypes,
			int integers[], MPI_Aint addresses[], MPI_Datatype types[])
{
	int n[3], combiner, rc;

	rc = gck_mpi_real.Type_get_contents(real, max_integers, max_addresses, max_datatypes,
					    integers, addresses, types);
	if (rc == MPI_SUCCESS)
		rc = gck_mpi_real.Type_get_envelope(real, &n[0], &n[1], &n[2], &combiner);
	for (int i = 0; rc == MPI_SUCCESS && i < n[2]; i++) {
		types[i] = gck_mpi_type_of_real(types[i]);
		if (!types[i])
			rc = MPI_ERR_NO_MEM;
	}
	return rc;
}

GCK_MPI_FUNCTION(Type_get_contents, (MPI_Datatype type, int max_integers, int max_addresses,
				     int max_datatypes, int integers[], MPI_Aint addresses[],
				     MPI_Datatype types[]))
{
	int rc;

	gck_mpi_enter();
	rc = get_contents(GCK_MPI_REAL_TYPE(type), max_integers, max_addresses, max_datatypes,
			  integers, addresses, types);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Type_get_contents");
}

/* The library has one datatype for each kind of Fortran 90 and makes it at the first call. From
 * then on it is predefined. */
static int out_f90(MPI_Datatype *newtype, MPI_Datatype real)
{
	int rc = MPI_SUCCESS;

	gck_mpi_real_out(newtype, real, GCK_MPI_DATATYPE, rc);
	if (rc == MPI_SUCCESS)
		((struct gck_mpi_handle *)*newtype)->flags |= GCK_MPI_PREDEFINED;
	return rc;
}

#define FORTRAN90(name, parameters, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		MPI_Datatype real; \
		int rc = MPI_ERR_ARG; \
\
		gck_mpi_enter(); \
		if (newtype) \
			rc = gck_mpi_real.name(__VA_ARGS__, &real); \
		if (rc == MPI_SUCCESS) \
			rc = out_f90(newtype, real); \
		gck_mpi_leave(); \
		return gck_mpi_error(NULL, rc, "MPI_" #name); \
	}

FORTRAN90(Type_create_f90_real, (int p, int r, MPI_Datatype *newtype), p, r)
FORTRAN90(Type_create_f90_complex, (int p, int r, MPI_Datatype *newtype), p, r)
FORTRAN90(Type_create_f90_integer, (int r, MPI_Datatype *newtype), r)
