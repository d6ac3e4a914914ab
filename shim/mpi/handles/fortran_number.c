/* SPDX-License-Identifier: Apache-2.0
 * Fortran's INTEGER handles and MPI's conversion functions (MPI_Comm_c2f and the like). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/handles/bind.h"
#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/fortran_number.h"

static struct table {
	struct gck_mpi_handle **v; /* by number; NULL: free */
	size_t capacity, lowest;   /* no number below lowest is free */
} tables[GCK_MPI_KINDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int listed; /* the predefined handles are in the tables */

static int put(struct table *t, size_t at, struct gck_mpi_handle *h)
{
	size_t capacity = t->capacity ? t->capacity : 128;
	struct gck_mpi_handle **v;

	while (capacity <= at)
		capacity *= 2;
	if (capacity > t->capacity) {
		v = reallocarray(t->v, capacity, sizeof(*v));
		if (!v)
			return -1;
		memset(v + t->capacity, 0, (capacity - t->capacity) * sizeof(*v));
		t->v = v;
		t->capacity = capacity;
	}
	t->v[at] = h;
	return 0;
}

static int list_predefined(void)
{
	if (listed)
		return 0;
	for (const struct gck_mpi_slot *s = gck_mpi_predefined; s->name; s++) {
		struct gck_mpi_handle *h = (void *)s->at;

		if (h->fortran >= 0 && put(&tables[h->kind], (size_t)h->fortran, h))
			return -1;
	}
	listed = 1;
	return 0;
}

static int number_of(struct gck_mpi_handle *h)
{
	struct table *t = &tables[h->kind];

	if (h->fortran >= 0)
		return h->fortran;
	if (list_predefined())
		return -1;
	while (t->lowest < t->capacity && t->v[t->lowest])
		t->lowest++;
	if (t->lowest > INT32_MAX || put(t, t->lowest, h))
		return -1;
	h->fortran = (int32_t)t->lowest++;
	return h->fortran;
}

int gck_mpi_fortran_number(void *handle, enum gck_mpi_kind kind)
{
	int number;

	if (!gck_mpi_is(handle, kind))
		return -1;
	pthread_mutex_lock(&lock);
	number = number_of(handle);
	pthread_mutex_unlock(&lock);
	return number;
}

/* The handle with that number; NULL: none. */
static void *handle_of(int number, enum gck_mpi_kind kind)
{
	struct table *t = &tables[kind];
	void *h = NULL;

	pthread_mutex_lock(&lock);
	if (!list_predefined() && number >= 0 && (size_t)number < t->capacity)
		h = t->v[number];
	pthread_mutex_unlock(&lock);
	return h;
}

void gck_mpi_fortran_free(struct gck_mpi_handle *h)
{
	struct table *t = &tables[h->kind];

	if (h->fortran < 0 || h->flags & GCK_MPI_PREDEFINED)
		return;
	pthread_mutex_lock(&lock);
	t->v[h->fortran] = NULL;
	if ((size_t)h->fortran < t->lowest)
		t->lowest = (size_t)h->fortran;
	h->fortran = -1;
	pthread_mutex_unlock(&lock);
}

/* An unknown number gives NULL, as in Open MPI; a call with it then returns an error. */
#define CONVERT(type, name, kind) \
	GCK_MPI_FUNCTION_OF(MPI_Fint, name##_c2f, (type handle)) \
	{ \
		return gck_mpi_fortran_number(handle, kind); \
	} \
	GCK_MPI_FUNCTION_OF(type, name##_f2c, (MPI_Fint number)) \
	{ \
		return handle_of(number, kind); \
	}

CONVERT(MPI_Comm, Comm, GCK_MPI_COMM)
CONVERT(MPI_Datatype, Type, GCK_MPI_DATATYPE)
CONVERT(MPI_Errhandler, Errhandler, GCK_MPI_ERRHANDLER)
CONVERT(MPI_File, File, GCK_MPI_FILE)
CONVERT(MPI_Group, Group, GCK_MPI_GROUP)
CONVERT(MPI_Info, Info, GCK_MPI_INFO)
CONVERT(MPI_Message, Message, GCK_MPI_MESSAGE)
CONVERT(MPI_Op, Op, GCK_MPI_OP)
CONVERT(MPI_Request, Request, GCK_MPI_REQUEST)
CONVERT(MPI_Win, Win, GCK_MPI_WIN)
