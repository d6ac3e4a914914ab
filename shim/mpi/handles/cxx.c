/* SPDX-License-Identifier: Apache-2.0
 * Symbols for Open MPI's C++ bindings (libmpi_cxx.so.40, which mpicxx links), which the program
 * uses unchanged. They access Open MPI's objects only through the functions ompi_cxx_*, which this
 * file replaces. The other symbols are those that the bindings need to link. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/handles/op.h"

typedef void callback(void);
/* A function of libmpi_cxx: makes a C++ object from the handle and calls function with it. */
typedef void dispatcher(void *handle, int *code, const char *message, callback *function);

static struct {
	MPI_Comm_errhandler_function *comm;
	MPI_File_errhandler_function *file;
	MPI_Win_errhandler_function *win;
} throws;

/* The C++ classes of communicators (MPI::Intracomm and so on). */
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
	(void)errhandler; /* it is always MPI::ERRORS_THROW_EXCEPTIONS */
	throws.comm = comm;
	throws.file = file;
	throws.win = win;
	gck_mpi_error_set_throw(throw);
}

/* The bindings' attribute callbacks are C functions whose extra state is the C++ callback. */
#define CREATE_KEYVAL(name, create) \
	int name(void *copy, void *delete, int *keyval, void *extra, int flags, void *unused) \
		GCK_MPI_SHOWN; \
	int name(void *copy, void *delete, int *keyval, void *extra, int flags, void *unused) \
	{ \
		(void)flags; \
		(void)unused; \
		return create(copy, delete, keyval, extra); \
	}

CREATE_KEYVAL(ompi_cxx_attr_create_keyval_comm, MPI_Comm_create_keyval)
CREATE_KEYVAL(ompi_cxx_attr_create_keyval_win, MPI_Win_create_keyval)
CREATE_KEYVAL(ompi_cxx_attr_create_keyval_type, MPI_Type_create_keyval)

/* Called after MPI_Op_create with libmpi_cxx's C function, which calls the C++ function given
 * here. */
void ompi_op_set_cxx_callback(MPI_Op op, callback *function) GCK_MPI_SHOWN;
void ompi_op_set_cxx_callback(MPI_Op op, callback *function)
{
	gck_mpi_op_set_cxx(op, function);
}

/* Referenced only by functions of libmpi_cxx that the functions above replace, so never called. */
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

/* The list in which the bindings store data representations: an empty opal_list_t of Open MPI. */
struct list {
	void *object[2], *anchor[2], *next, *previous, *item_state;
	size_t length;
};
extern struct list ompi_registered_datareps GCK_MPI_SHOWN;
struct list ompi_registered_datareps = {
	.next = &ompi_registered_datareps.anchor,
	.previous = &ompi_registered_datareps.anchor,
};
