/* SPDX-License-Identifier: Apache-2.0
 * MPI's functions on attributes and key values. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/keyval.h"

static int is_object(const void *handle, enum gck_mpi_kind kind)
{
	return gck_mpi_is(handle, kind) &&
	       !(((const struct gck_mpi_handle *)handle)->flags & GCK_MPI_NULL);
}

static int create(enum gck_mpi_kind of, void (*copy)(void), void (*delete)(void), void *extra,
		  int *number)
{
	const struct gck_mpi_keyval like = {.of = of, .language = GCK_MPI_C, .copy = copy,
					    .delete = delete, .extra = (intptr_t)extra};

	return gck_mpi_keyval_create(&like, number);
}

static int set(void *handle, int number, void *pointer)
{
	const struct gck_mpi_value v = {.language = GCK_MPI_C, .pointer = pointer};

	return gck_mpi_attribute_set(handle, number, &v);
}

static int get(void *handle, int number, void *pointer, int *flag)
{
	struct gck_mpi_value v;
	int rc;

	if (!pointer || !flag)
		return MPI_ERR_ARG;
	rc = gck_mpi_attribute_get(handle, number, GCK_MPI_C, &v, flag);
	if (rc == MPI_SUCCESS && *flag)
		*(void **)pointer = v.pointer;
	return rc;
}

/* invalid: the error for a handle that is none; owner: whose error handler it is. */
#define FOR_KIND(Name, kind, type, invalid, owner) \
	GCK_MPI_FUNCTION(Name##_create_keyval, \
			 (MPI_##Name##_copy_attr_function *copy, \
			  MPI_##Name##_delete_attr_function *delete, int *number, void *extra)) \
	{ \
		return gck_mpi_error(NULL, create(kind, (void (*)(void))copy, \
						  (void (*)(void))delete, extra, number), \
				     "MPI_" #Name "_create_keyval"); \
	} \
	GCK_MPI_FUNCTION(Name##_free_keyval, (int *number)) \
	{ \
		return gck_mpi_error(NULL, gck_mpi_keyval_free(kind, number), \
				     "MPI_" #Name "_free_keyval"); \
	} \
	GCK_MPI_FUNCTION(Name##_set_attr, (type handle, int number, void *value)) \
	{ \
		int rc = is_object(handle, kind) ? set(handle, number, value) : invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_set_attr"); \
	} \
	GCK_MPI_FUNCTION(Name##_get_attr, (type handle, int number, void *value, int *flag)) \
	{ \
		int rc = is_object(handle, kind) ? get(handle, number, value, flag) : invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_get_attr"); \
	} \
	GCK_MPI_FUNCTION(Name##_delete_attr, (type handle, int number)) \
	{ \
		int rc = is_object(handle, kind) ? gck_mpi_attribute_delete(handle, number) : \
						   invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_delete_attr"); \
	}

FOR_KIND(Comm, GCK_MPI_COMM, MPI_Comm, MPI_ERR_COMM, handle)
FOR_KIND(Type, GCK_MPI_DATATYPE, MPI_Datatype, MPI_ERR_TYPE, NULL)
FOR_KIND(Win, GCK_MPI_WIN, MPI_Win, MPI_ERR_WIN, handle)

/* MPI-1's names. */

GCK_MPI_FUNCTION(Keyval_create, (MPI_Copy_function *copy, MPI_Delete_function *delete, int *number,
				 void *extra))
{
	return gck_mpi_error(NULL, create(GCK_MPI_COMM, (void (*)(void))copy,
					  (void (*)(void))delete, extra, number),
			     "MPI_Keyval_create");
}

GCK_MPI_FUNCTION(Keyval_free, (int *number))
{
	return gck_mpi_error(NULL, gck_mpi_keyval_free(GCK_MPI_COMM, number), "MPI_Keyval_free");
}

GCK_MPI_FUNCTION(Attr_put, (MPI_Comm comm, int number, void *value))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? set(comm, number, value) : MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_put");
}

GCK_MPI_FUNCTION(Attr_get, (MPI_Comm comm, int number, void *value, int *flag))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? get(comm, number, value, flag) : MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_get");
}

GCK_MPI_FUNCTION(Attr_delete, (MPI_Comm comm, int number))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? gck_mpi_attribute_delete(comm, number) :
						 MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_delete");
}
