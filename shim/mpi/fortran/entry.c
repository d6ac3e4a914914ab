/* SPDX-License-Identifier: Apache-2.0
 * Functions of libgpuckpt-mpi.so that the handwritten Fortran bindings call. */
#include "shim/mpi/fortran/fortran.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/handles/keyval.h"
#include "shim/mpi/handles/op.h"

__typeof__(gck_mpi_fortran_op) gck_mpi_fortran_op GCK_MPI_SHOWN;
__typeof__(gck_mpi_fortran_errhandler) gck_mpi_fortran_errhandler GCK_MPI_SHOWN;
__typeof__(gck_mpi_fortran_keyval) gck_mpi_fortran_keyval GCK_MPI_SHOWN;
__typeof__(gck_mpi_fortran_attribute_set) gck_mpi_fortran_attribute_set GCK_MPI_SHOWN;
__typeof__(gck_mpi_fortran_attribute_get) gck_mpi_fortran_attribute_get GCK_MPI_SHOWN;

static enum gck_mpi_language language(bool aint)
{
	return aint ? GCK_MPI_FORTRAN_AINT : GCK_MPI_FORTRAN;
}

int gck_mpi_fortran_op(gck_mpi_fortran_fn *function, int commute, MPI_Op *op)
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_op_create(function, GCK_MPI_FORTRAN, commute, op);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Op_create");
}

int gck_mpi_fortran_errhandler(int kind, gck_mpi_fortran_fn *function, MPI_Errhandler *errhandler)
{
	*errhandler = gck_mpi_errhandler_new((enum gck_mpi_kind)kind, GCK_MPI_FORTRAN, function);
	return gck_mpi_error(NULL, *errhandler ? MPI_SUCCESS : MPI_ERR_NO_MEM,
			     "MPI_Comm_create_errhandler");
}

int gck_mpi_fortran_keyval(int kind, bool aint, gck_mpi_fortran_fn *copy,
			   gck_mpi_fortran_fn *delete, intptr_t extra, int *number)
{
	const struct gck_mpi_keyval like = {.of = (enum gck_mpi_kind)kind,
					    .language = language(aint),
					    .copy = copy,
					    .delete = delete,
					    .extra = extra};

	return gck_mpi_error(NULL, gck_mpi_keyval_create(&like, number), "MPI_Comm_create_keyval");
}

/* Checks the handle of an attribute. *owner is the object whose error handler is called; a datatype
 * has none. */
static int check(int kind, const void *handle, void **owner)
{
	const struct gck_mpi_handle *h = handle;

	*owner = NULL;
	if (!gck_mpi_is(handle, (enum gck_mpi_kind)kind) || h->flags & GCK_MPI_NULL)
		return kind == GCK_MPI_COMM  ? MPI_ERR_COMM
		       : kind == GCK_MPI_WIN ? MPI_ERR_WIN
					     : MPI_ERR_TYPE;
	*owner = kind == GCK_MPI_DATATYPE ? NULL : (void *)(uintptr_t)handle;
	return MPI_SUCCESS;
}

int gck_mpi_fortran_attribute_set(int kind, bool aint, void *handle, int number, intptr_t value)
{
	struct gck_mpi_value v = {.language = language(aint)};
	void *owner;
	int rc = check(kind, handle, &owner);

	if (aint)
		v.aint = value;
	else
		v.integer = (MPI_Fint)value;
	if (rc == MPI_SUCCESS)
		rc = gck_mpi_attribute_set(handle, number, &v);
	return gck_mpi_error(owner, rc, "MPI_Comm_set_attr");
}

int gck_mpi_fortran_attribute_get(int kind, bool aint, void *handle, int number, intptr_t *value,
				  int *flag)
{
	struct gck_mpi_value v;
	void *owner;
	int rc = check(kind, handle, &owner);

	if (rc == MPI_SUCCESS)
		rc = gck_mpi_attribute_get(handle, number, language(aint), &v, flag);
	if (rc == MPI_SUCCESS && *flag)
		*value = aint ? v.aint : v.integer;
	return gck_mpi_error(owner, rc, "MPI_Comm_get_attr");
}
