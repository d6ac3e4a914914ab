/* SPDX-License-Identifier: Apache-2.0
 * What a program's MPI handles point at. Open MPI's handles are pointers, so the stand-in's are
 * too: each object, predefined or made, begins with this struct. `real` is the real library's
 * handle. It is read only between gck_mpi_enter and gck_mpi_leave, because a restart changes it. */
#ifndef GCK_MPI_HANDLE_H
#define GCK_MPI_HANDLE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* For exported symbols; hidden is the default. */
#define GCK_MPI_SHOWN __attribute__((visibility("default")))

enum gck_mpi_kind {
	GCK_MPI_COMM = 1,
	GCK_MPI_GROUP,
	GCK_MPI_DATATYPE,
	GCK_MPI_OP,
	GCK_MPI_ERRHANDLER,
	GCK_MPI_INFO,
	GCK_MPI_REQUEST,
	GCK_MPI_MESSAGE,
	GCK_MPI_WIN,
	GCK_MPI_FILE,
	GCK_MPI_T_ENUM,
	GCK_MPI_T_CVAR,
	GCK_MPI_T_PVAR,
	GCK_MPI_T_SESSION,
	GCK_MPI_KINDS
};

/* The first word of a handle: one comparison checks that it is the stand-in's and of the kind. */
#define GCK_MPI_HANDLE_MAGIC(kind) (0x4d504900u + (kind))

enum {
	GCK_MPI_PREDEFINED = 1, /* an exported object: never freed */
	GCK_MPI_NULL = 2,       /* MPI_COMM_NULL and the like */
	GCK_MPI_COMMITTED = 4,  /* a datatype that the program made and committed */
};

struct gck_mpi_handle {
	uint32_t magic;
	uint16_t kind, flags;
	void *real;
	int32_t fortran;             /* its INTEGER handle; -1: none yet */
	uint32_t size;               /* bytes of the whole object; 0: predefined */
	void *body;                  /* the kind's fields for a predefined object; other objects
				      * have their fields after this struct */
	struct gck_mpi_handle *next, *prev; /* the live handles of the kind, oldest first */
	struct gck_mpi_attached *attached;  /* name, error handler, attributes; or NULL */
	uint32_t refs;                      /* datatypes, operations: types/handle_ref.h */
};

/* True if a handle that a program passed is the stand-in's and of this kind. */
static inline int gck_mpi_is(const void *handle, enum gck_mpi_kind kind)
{
	const struct gck_mpi_handle *h = handle;

	return __builtin_expect(h && h->magic == GCK_MPI_HANDLE_MAGIC(kind), 1);
}

static inline void *gck_mpi_real_of(const void *handle)
{
	return ((const struct gck_mpi_handle *)handle)->real;
}

/* The null handle of each kind in the real library. */
extern void *gck_mpi_real_null[GCK_MPI_KINDS];

/* The real handle for a handle that a program passed. NULL and foreign pointers give the null
 * handle of the kind, so that the real library reports the same error as without the stand-in. */
static inline void *gck_mpi_real_handle(const void *handle, enum gck_mpi_kind kind)
{
	if (__builtin_expect(gck_mpi_is(handle, kind), 1))
		return gck_mpi_real_of(handle);
	return gck_mpi_real_null[kind];
}

#define GCK_MPI_REAL_COMM(h) ((MPI_Comm)gck_mpi_real_handle(h, GCK_MPI_COMM))
#define GCK_MPI_REAL_GROUP(h) ((MPI_Group)gck_mpi_real_handle(h, GCK_MPI_GROUP))
#define GCK_MPI_REAL_TYPE(h) ((MPI_Datatype)gck_mpi_real_handle(h, GCK_MPI_DATATYPE))
#define GCK_MPI_REAL_OP(h) ((MPI_Op)gck_mpi_real_handle(h, GCK_MPI_OP))
#define GCK_MPI_REAL_REQUEST(h) ((MPI_Request)gck_mpi_real_handle(h, GCK_MPI_REQUEST))
#define GCK_MPI_REAL_MESSAGE(h) ((MPI_Message)gck_mpi_real_handle(h, GCK_MPI_MESSAGE))
#define GCK_MPI_REAL_WIN(h) ((MPI_Win)gck_mpi_real_handle(h, GCK_MPI_WIN))
#define GCK_MPI_REAL_FILE(h) ((MPI_File)gck_mpi_real_handle(h, GCK_MPI_FILE))

/* Makes an object of size bytes, zeroed but for the handle, and adds it to the list of its kind;
 * NULL: no memory. gck_mpi_find finds it by its real handle, unless the kind is REQUEST or MESSAGE.
 * gck_mpi_handle_free frees it with its attachments; predefined objects stay. */
GCK_MUST_CHECK void *gck_mpi_handle_new(enum gck_mpi_kind kind, size_t size, void *real);
void gck_mpi_handle_free(void *handle);

/* The stand-in's handle, predefined or live, for a real one; NULL: none. */
void *gck_mpi_find(enum gck_mpi_kind kind, const void *real);

/* Changes the real handle (after a restart). */
void gck_mpi_handle_set_real(void *handle, void *real);

/* The oldest live handle of a kind, predefined ones excepted; the others follow by ->next. */
struct gck_mpi_handle *gck_mpi_first(enum gck_mpi_kind kind);

/* The first handle for which fn returns true; NULL: none. Safe while other threads are inside MPI:
 * the kind's lock is held, so fn must not make or free handles of the kind. */
struct gck_mpi_handle *gck_mpi_first_that(enum gck_mpi_kind kind,
					  bool (*fn)(struct gck_mpi_handle *h, void *arg),
					  void *arg);

#endif
