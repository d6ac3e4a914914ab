/* SPDX-License-Identifier: Apache-2.0
 * Error handlers: making, attaching and getting them. */
#include <stdatomic.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attachment.h"
#include "shim/mpi/handles/errhandler.h"

MPI_Errhandler gck_mpi_errhandler_new(enum gck_mpi_kind of, enum gck_mpi_language language,
				      void (*function)(void))
{
	struct gck_mpi_errhandler *e = gck_mpi_handle_new(GCK_MPI_ERRHANDLER, sizeof(*e), NULL);

	if (!e)
		return NULL;
	e->of = of;
	e->language = language;
	e->function = function;
	atomic_init(&e->references, 1);
	return (MPI_Errhandler)e;
}

static MPI_Errhandler reference(MPI_Errhandler errhandler)
{
	struct gck_mpi_errhandler *e = (void *)errhandler;

	if (!(e->h.flags & GCK_MPI_PREDEFINED))
		atomic_fetch_add(&e->references, 1);
	return errhandler;
}

void gck_mpi_errhandler_release(MPI_Errhandler errhandler)
{
	struct gck_mpi_errhandler *e = (void *)errhandler;

	if (!(e->h.flags & GCK_MPI_PREDEFINED) && atomic_fetch_sub(&e->references, 1) == 1)
		gck_mpi_handle_free(e);
}

MPI_Errhandler gck_mpi_errhandler_of(void *handle)
{
	struct gck_mpi_handle *h = handle;
	MPI_Errhandler e;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	if (h->attached && h->attached->errhandler)
		e = h->attached->errhandler;
	else
		e = h->kind == GCK_MPI_FILE ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL;
	reference(e);
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return e;
}

/* Takes over the reference to e. */
static int attach(void *handle, MPI_Errhandler e)
{
	struct gck_mpi_attached *a;
	MPI_Errhandler old = NULL;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	a = gck_mpi_attached(handle);
	if (a) {
		old = a->errhandler;
		a->errhandler = e;
		a->release_errhandler = gck_mpi_errhandler_release;
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	if (!a || old)
		gck_mpi_errhandler_release(a ? old : e);
	return a ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void gck_mpi_errhandler_inherit(void *child, const void *parent)
{
	const struct gck_mpi_handle *p = parent;

	/* without memory the child keeps the default, which ends the job at an error */
	if (p->attached)
		(void)attach(child, gck_mpi_errhandler_of((void *)(uintptr_t)parent));
}

/* The functions for each kind of object. MPI_FILE_NULL has the handler of files opened later. */

static int is_object(const void *handle, enum gck_mpi_kind kind)
{
	return gck_mpi_is(handle, kind) &&
	       (kind == GCK_MPI_FILE ||
		!(((const struct gck_mpi_handle *)handle)->flags & GCK_MPI_NULL));
}

static int kind_error(enum gck_mpi_kind kind)
{
	if (kind == GCK_MPI_COMM)
		return MPI_ERR_COMM;
	return kind == GCK_MPI_WIN ? MPI_ERR_WIN : MPI_ERR_FILE;
}

static int create(enum gck_mpi_kind of, void (*function)(void), MPI_Errhandler *errhandler)
{
	MPI_Errhandler e;

	if (!function || !errhandler)
		return MPI_ERR_ARG;
	e = gck_mpi_errhandler_new(of, GCK_MPI_C, function);
	if (!e)
		return MPI_ERR_NO_MEM;
	*errhandler = e;
	return MPI_SUCCESS;
}

static int set(void *handle, enum gck_mpi_kind kind, MPI_Errhandler errhandler)
{
	const struct gck_mpi_errhandler *e = (const void *)errhandler;

	if (!is_object(handle, kind))
		return kind_error(kind);
	if (!gck_mpi_is(e, GCK_MPI_ERRHANDLER) || e->h.flags & GCK_MPI_NULL ||
	    (!(e->h.flags & GCK_MPI_PREDEFINED) && e->of != kind))
		return MPI_ERR_ARG;
	return attach(handle, reference(errhandler));
}

static int get(void *handle, enum gck_mpi_kind kind, MPI_Errhandler *errhandler)
{
	if (!is_object(handle, kind))
		return kind_error(kind);
	if (!errhandler)
		return MPI_ERR_ARG;
	*errhandler = gck_mpi_errhandler_of(handle);
	return MPI_SUCCESS;
}

/* Succeeds after the handler has run. */
static int call(void *handle, enum gck_mpi_kind kind, int code, const char *function)
{
	if (handle == MPI_FILE_NULL)
		return gck_mpi_error(NULL, MPI_ERR_ARG, function);
	if (!is_object(handle, kind))
		return gck_mpi_error(NULL, kind_error(kind), function);
	gck_mpi_error(handle, code, function);
	return MPI_SUCCESS;
}

#define FOR_KIND(Name, kind, type, function_type) \
	GCK_MPI_FUNCTION(Name##_create_errhandler, \
			 (function_type *function, MPI_Errhandler *errhandler)) \
	{ \
		return gck_mpi_error(NULL, create(kind, (void (*)(void))function, errhandler), \
				     "MPI_" #Name "_create_errhandler"); \
	} \
	GCK_MPI_FUNCTION(Name##_set_errhandler, (type handle, MPI_Errhandler errhandler)) \
	{ \
		return gck_mpi_error(handle, set(handle, kind, errhandler), \
				     "MPI_" #Name "_set_errhandler"); \
	} \
	GCK_MPI_FUNCTION(Name##_get_errhandler, (type handle, MPI_Errhandler *errhandler)) \
	{ \
		return gck_mpi_error(handle, get(handle, kind, errhandler), \
				     "MPI_" #Name "_get_errhandler"); \
	} \
	GCK_MPI_FUNCTION(Name##_call_errhandler, (type handle, int code)) \
	{ \
		return call(handle, kind, code, "MPI_" #Name "_call_errhandler"); \
	}

FOR_KIND(Comm, GCK_MPI_COMM, MPI_Comm, MPI_Comm_errhandler_function)
FOR_KIND(Win, GCK_MPI_WIN, MPI_Win, MPI_Win_errhandler_function)
FOR_KIND(File, GCK_MPI_FILE, MPI_File, MPI_File_errhandler_function)

GCK_MPI_FUNCTION(Errhandler_free, (MPI_Errhandler *errhandler))
{
	if (!errhandler || !gck_mpi_is(*errhandler, GCK_MPI_ERRHANDLER) ||
	    *errhandler == MPI_ERRHANDLER_NULL)
		return gck_mpi_error(NULL, MPI_ERR_ARG, "MPI_Errhandler_free");
	gck_mpi_errhandler_release(*errhandler);
	*errhandler = MPI_ERRHANDLER_NULL;
	return MPI_SUCCESS;
}

/* The names of MPI-1, which Open MPI still exports. */

GCK_MPI_FUNCTION(Errhandler_create, (MPI_Handler_function *function, MPI_Errhandler *errhandler))
{
	return gck_mpi_error(NULL, create(GCK_MPI_COMM, (void (*)(void))function, errhandler),
			     "MPI_Errhandler_create");
}

GCK_MPI_FUNCTION(Errhandler_set, (MPI_Comm comm, MPI_Errhandler errhandler))
{
	return gck_mpi_error(comm, set(comm, GCK_MPI_COMM, errhandler), "MPI_Errhandler_set");
}

GCK_MPI_FUNCTION(Errhandler_get, (MPI_Comm comm, MPI_Errhandler *errhandler))
{
	return gck_mpi_error(comm, get(comm, GCK_MPI_COMM, errhandler), "MPI_Errhandler_get");
}
