/* SPDX-License-Identifier: Apache-2.0
 * Open MPI's C++ bindings (libmpi_cxx.so.40, which mpicxx links) are in the program, unchanged. Where
 * they look inside Open MPI's objects they do it in functions of their own, ompi_cxx_*, which come
 * from here instead; the rest is what they need to link. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/handles/op.h"

typedef void callback(void);
/* libmpi_cxx's: makes C++ objects of a handle, calls function with them. */
typedef void dispatcher(void *handle, int *code, const char *message, callback *function);

static struct {
	MPI_Comm_errhandler_function *comm;
	MPI_File_errhandler_function *file;
	MPI_Win_errhandler_function *win;
} throws;

/* The kinds of C++ communicators (MPI::Comm::…). */
enum { INTRACOMM = 1, INTERCOMM, CARTCOMM, GRAPHCOMM };

int ompi_cxx_comm_get_type(MPI_Comm comm) GCK_MPI_SHOWN;
int ompi_cxx_comm_get_type(MPI_Comm comm)
{
	int inter = 0, topology = MPI_UNDEFINED;

	gck_mpi_enter();
	gck_mpi_real.Comm_test_inter(GCK_MPI_REAL_COMM(comm), &inter);
	gck_mpi_real.Topo_test(GCK_MPI_REAL_COMM(comm), &topology);
	gck_mpi_leave();
	if (topology == MPI_GRAPH)
		return GRAPHCOMM;
	if (topology == MPI_CART)
		return CARTCOMM;
	return inter ? INTERCOMM : INTRACOMM;
}

#define INVOKE(name, type) \
	int name(type object, int code, const char *function) GCK_MPI_SHOWN; \
	int name(type object, int code, const char *function) \
	{ \
		return gck_mpi_error(object, code, function); \
	}

INVOKE(ompi_cxx_errhandler_invoke_comm, MPI_Comm)
INVOKE(ompi_cxx_errhandler_invoke_win, MPI_Win)
INVOKE(ompi_cxx_errhandler_invoke_file, MPI_File)

/* Calls an error handler of language GCK_MPI_CXX. */
static void invoke(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h, int rc,
		   const char *function)
{
	static const char *const names[GCK_MPI_KINDS] = {
		[GCK_MPI_COMM] = "ompi_mpi_cxx_comm_errhandler_invoke",
		[GCK_MPI_WIN] = "ompi_mpi_cxx_win_errhandler_invoke",
		[GCK_MPI_FILE] = "ompi_mpi_cxx_file_errhandler_invoke",
	};
	dispatcher *dispatch = (dispatcher *)dlsym(RTLD_DEFAULT, names[e->of]);
	void *handle = h;

	if (dispatch)
		dispatch(&handle, &rc, function, e->function);
}

static void throw(struct gck_mpi_handle *h, int rc, const char *function)
{
	MPI_Comm comm = (MPI_Comm)h;
	MPI_Win win = (MPI_Win)h;
	MPI_File file = (MPI_File)h;

	if (h->kind == GCK_MPI_COMM && throws.comm)
		throws.comm(&comm, &rc, function, NULL);
	else if (h->kind == GCK_MPI_WIN && throws.win)
		throws.win(&win, &rc, function, NULL);
	else if (h->kind == GCK_MPI_FILE && throws.file)
		throws.file(&file, &rc, function, NULL);
}

static MPI_Errhandler create_errhandler(enum gck_mpi_kind kind, callback *function)
{
	MPI_Errhandler errhandler = gck_mpi_errhandler_new(kind, GCK_MPI_CXX, function);
	struct gck_mpi_errhandler *e = (void *)errhandler;

	if (e)
		e->invoke = invoke;
	return errhandler;
}

#define CREATE_ERRHANDLER(name, kind) \
	MPI_Errhandler name(callback *function) GCK_MPI_SHOWN; \
	MPI_Errhandler name(callback *function) \
	{ \
		return create_errhandler(kind, function); \
	}

CREATE_ERRHANDLER(ompi_cxx_errhandler_create_comm, GCK_MPI_COMM)
CREATE_ERRHANDLER(ompi_cxx_errhandler_create_win, GCK_MPI_WIN)
CREATE_ERRHANDLER(ompi_cxx_errhandler_create_file, GCK_MPI_FILE)

void ompi_cxx_errhandler_set_callbacks(MPI_Errhandler errhandler,
				       MPI_Comm_errhandler_function *comm,
				       MPI_File_errhandler_function *file,
				       MPI_Win_errhandler_function *win) GCK_MPI_SHOWN;
void ompi_cxx_errhandler_set_callbacks(MPI_Errhandler errhandler,
				       MPI_Comm_errhandler_function *comm,
				       MPI_File_errhandler_function *file,
				       MPI_Win_errhandler_function *win)
{
	(void)errhandler; /* MPI::ERRORS_THROW_EXCEPTIONS */
	throws.comm = comm;
	throws.file = file;
	throws.win = win;
	gck_mpi_error_set_throw(throw);
}

/* C++'s callbacks for attributes are C functions with a C++ one as their state. */
#define CREATE_KEYVAL(name, create) \
	int name(void *copy, void *delete, int *keyval, void *extra, int flags, void *more) \
		GCK_MPI_SHOWN; \
	int name(void *copy, void *delete, int *keyval, void *extra, int flags, void *more) \
	{ \
		(void)flags; \
		(void)more; \
		return create(copy, delete, keyval, extra); \
	}

CREATE_KEYVAL(ompi_cxx_attr_create_keyval_comm, MPI_Comm_create_keyval)
CREATE_KEYVAL(ompi_cxx_attr_create_keyval_win, MPI_Win_create_keyval)
CREATE_KEYVAL(ompi_cxx_attr_create_keyval_type, MPI_Type_create_keyval)

/* After MPI_Op_create of libmpi_cxx's function that calls this one. */
void ompi_op_set_cxx_callback(MPI_Op op, callback *function) GCK_MPI_SHOWN;
void ompi_op_set_cxx_callback(MPI_Op op, callback *function)
{
	gck_mpi_op_set_cxx(op, function);
}

/* Only functions of libmpi_cxx that are never called, for those above come first, refer to these. */
#define NEVER_CALLED(name) \
	int name(void) GCK_MPI_SHOWN; \
	int name(void) \
	{ \
		return MPI_ERR_INTERN; \
	}

NEVER_CALLED(ompi_attr_create_keyval)
NEVER_CALLED(ompi_errhandler_create)
NEVER_CALLED(ompi_errhandler_invoke)

extern int ompi_errcode_intern_lastused GCK_MPI_SHOWN;
int ompi_errcode_intern_lastused;

extern char ompi_errcodes_intern[120] GCK_MPI_SHOWN;
char ompi_errcodes_intern[120];

/* Where C++ keeps its data representations: Open MPI's opal_list_t, empty. */
struct list {
	void *object[2], *anchor[2], *next, *previous, *item_state;
	size_t length;
};
extern struct list ompi_registered_datareps GCK_MPI_SHOWN;
struct list ompi_registered_datareps = {
	.next = &ompi_registered_datareps.anchor,
	.previous = &ompi_registered_datareps.anchor,
};
