/* SPDX-License-Identifier: Apache-2.0
 * What a program's MPI handles point at. Open MPI's handles are pointers, so ours are too: every
 * one, predefined or made, begins with this struct. The real library's handle is in `real`; it is
 * read between gck_mpi_enter and gck_mpi_leave only, for a restart changes it. */
#ifndef GCK_MPI_HANDLE_H
#define GCK_MPI_HANDLE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the library shows: hidden is the default. */
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

/* What a handle of a kind begins with: one comparison with a constant tells that it is ours, and of
 * that kind. */
#define GCK_MPI_HANDLE_MAGIC(kind) (0x4d504900u + (kind))

enum {
	GCK_MPI_PREDEFINED = 1, /* an exported object: never freed */
	GCK_MPI_NULL = 2,       /* MPI_COMM_NULL and the like */
	GCK_MPI_COMMITTED = 4,  /* a type that the program made and committed */
};

struct gck_mpi_handle {
	uint32_t magic;
	uint16_t kind, flags;
	void *real;
	int32_t fortran;             /* its INTEGER handle; -1: none yet */
	uint32_t size;               /* bytes of the whole object; 0: predefined */
	void *body;                  /* what the kind's own file knows of a predefined object; objects
				      * that are made have their fields after this struct */
	struct gck_mpi_handle *next, *prev; /* all of the kind that live, in the order of making */
	struct gck_mpi_attached *attached;  /* name, error handler, attributes; or NULL */
	uint32_t refs;                      /* types, operations: types/handle_ref.h */
};

/* A handle that a program passed: is it one of ours, of this kind? */
static inline int gck_mpi_is(const void *handle, enum gck_mpi_kind kind)
{
	const struct gck_mpi_handle *h = handle;

	return __builtin_expect(h && h->magic == GCK_MPI_HANDLE_MAGIC(kind), 1);
}

static inline void *gck_mpi_real_of(const void *handle)
{
	return ((const struct gck_mpi_handle *)handle)->real;
}

/* The real library's null handle of each kind. */
extern void *gck_mpi_real_null[GCK_MPI_KINDS];

/* The real handle for one that a program passed. For NULL and what is not ours it is the kind's
 * null handle: the real library then finds the same fault with it as it would have by itself. */
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

/* A new object of size bytes, zeroed, its head filled in and listed with its kind; NULL: no memory.
 * It must be found again by its real handle (gck_mpi_find) unless the kind is REQUEST or
 * MESSAGE. */
void *gck_mpi_handle_new(enum gck_mpi_kind kind, size_t size, void *real);
void gck_mpi_handle_free(void *handle);

/* Ours for a real handle that the library returned: a predefined object or one that lives; NULL. */
void *gck_mpi_find(enum gck_mpi_kind kind, const void *real);

/* Change what stands behind a handle (after a restart). */
void gck_mpi_handle_set_real(void *handle, void *real);

/* First of a kind that lives (made ones, in the order of making); the next is ->next. */
struct gck_mpi_handle *gck_mpi_first(enum gck_mpi_kind kind);

/* The first for which fn returns true; NULL: none. Where other threads may be inside: none is made
 * or freed meanwhile, by fn neither. */
struct gck_mpi_handle *gck_mpi_first_that(enum gck_mpi_kind kind,
					  bool (*fn)(struct gck_mpi_handle *h, void *arg),
					  void *arg);

#endif
