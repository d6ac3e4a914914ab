/* SPDX-License-Identifier: Apache-2.0
 * What is attached to a handle, and the names of objects: they are stored here for a restart, and
 * passed to the real library for its messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/file/file.h"
#include "shim/mpi/handles/attachment.h"

pthread_mutex_t gck_mpi_attached_lock = PTHREAD_MUTEX_INITIALIZER;

struct gck_mpi_attached *gck_mpi_attached(void *handle)
{
	struct gck_mpi_handle *h = handle;

	if (!h->attached)
		h->attached = calloc(1, sizeof(*h->attached));
	return h->attached;
}

void gck_mpi_attached_free(struct gck_mpi_handle *h)
{
	struct gck_mpi_attached *a = h->attached;

	if (!a)
		return;
	h->attached = NULL;
	if (a->errhandler)
		a->release_errhandler(a->errhandler);
	if (a->attributes)
		a->drop_attributes(a->attributes);
	free(a->name);
	free(a);
}

/* The name that the program set; NULL: none. */
static const char *program_name(const struct gck_mpi_handle *h)
{
	return h->attached ? h->attached->name : NULL;
}

static int store_name(void *handle, const char *name)
{
	struct gck_mpi_attached *a;
	char *copy = strndup(name, MPI_MAX_OBJECT_NAME - 1);

	pthread_mutex_lock(&gck_mpi_attached_lock);
	a = copy ? gck_mpi_attached(handle) : NULL;
	if (a) {
		free(a->name);
		a->name = copy;
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	if (!a)
		free(copy);
	return a ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Copies the name that the program set; 0 if there is none. */
static int copy_name(const void *handle, char *name, int *length)
{
	const struct gck_mpi_handle *h = handle;
	const char *stored;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	stored = program_name(h);
	if (stored) {
		strcpy(name, stored);
		*length = (int)strlen(stored);
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return stored != NULL;
}

/* owner: the object whose error handler is called. */
#define FOR_KIND(Name, kind, type, owner) \
	GCK_MPI_FUNCTION(Name##_set_name, (type handle, const char *name)) \
	{ \
		int rc; \
\
		gck_mpi_enter(); \
		rc = gck_mpi_real.Name##_set_name(gck_mpi_real_handle(handle, kind), name); \
		if (rc == MPI_SUCCESS) \
			rc = store_name(handle, name); \
		gck_mpi_leave(); \
		return gck_mpi_error(owner, rc, "MPI_" #Name "_set_name"); \
	} \
	GCK_MPI_FUNCTION(Name##_get_name, (type handle, char *name, int *length)) \
	{ \
		int rc = MPI_SUCCESS; \
\
		gck_mpi_enter(); \
		if (!gck_mpi_is(handle, kind) || !name || !length || \
		    !copy_name(handle, name, length)) \
			rc = gck_mpi_real.Name##_get_name(gck_mpi_real_handle(handle, kind), \
							  name, length); \
		gck_mpi_leave(); \
		return gck_mpi_error(owner, rc, "MPI_" #Name "_get_name"); \
	}

FOR_KIND(Comm, GCK_MPI_COMM, MPI_Comm, handle)
FOR_KIND(Type, GCK_MPI_DATATYPE, MPI_Datatype, NULL)
FOR_KIND(Win, GCK_MPI_WIN, MPI_Win, handle)

void gck_mpi_display_name(struct gck_mpi_handle *h, char *name)
{
	const struct gck_mpi_file *file = gck_mpi_file_of((MPI_File)h);
	int length = 0, rc = MPI_ERR_OTHER;

	if (file) {
		snprintf(name, MPI_MAX_OBJECT_NAME, "%s", file->name);
		return;
	}
	gck_mpi_enter();
	if (h->kind == GCK_MPI_COMM)
		rc = gck_mpi_real.Comm_get_name(h->real, name, &length);
	else if (h->kind == GCK_MPI_WIN)
		rc = gck_mpi_real.Win_get_name(h->real, name, &length);
	gck_mpi_leave();
	if (!copy_name(h, name, &length) && (rc != MPI_SUCCESS || !length))
		strcpy(name, "without a name");
}
