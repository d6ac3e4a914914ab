/* SPDX-License-Identifier: Apache-2.0
 * The bindings that functions.tbl cannot describe: callbacks, attributes, functions with a
 * result. */
#include "shim/mpi/fortran/fortran.h"
#include "shim/mpi/handles/handle.h"

#include <stdio.h>
#include <string.h>

#define BINDING(name, ...) \
	GCK_F void name(__VA_ARGS__); \
	void name(__VA_ARGS__)

typedef gck_mpi_fortran_fn fn;

static void set_ierr(MPI_Fint *ierr, int rc)
{
	if (ierr)
		*ierr = rc;
}

/* ---- initialisation and time */

BINDING(ompi_init_f, MPI_Fint *ierr)
{
	set_ierr(ierr, PMPI_Init(NULL, NULL));
}

BINDING(ompi_init_thread_f, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr)
{
	set_ierr(ierr, PMPI_Init_thread(NULL, NULL, *required, provided));
}

BINDING(ompi_pcontrol_f, MPI_Fint *level)
{
	PMPI_Pcontrol(*level);
}

GCK_F double ompi_wtime_f(void);
double ompi_wtime_f(void)
{
	return PMPI_Wtime();
}

GCK_F double ompi_wtick_f(void);
double ompi_wtick_f(void)
{
	return PMPI_Wtick();
}

GCK_F MPI_Aint ompi_aint_add_f(const MPI_Aint *base, const MPI_Aint *disp);
MPI_Aint ompi_aint_add_f(const MPI_Aint *base, const MPI_Aint *disp)
{
	return *base + *disp;
}

GCK_F MPI_Aint ompi_aint_diff_f(const MPI_Aint *a, const MPI_Aint *b);
MPI_Aint ompi_aint_diff_f(const MPI_Aint *a, const MPI_Aint *b)
{
	return *a - *b;
}

/* The call itself keeps the compiler from moving accesses to the variable across it. */
BINDING(ompi_f_sync_reg_f, char *variable)
{
	(void)variable;
}

/* ---- callbacks */

BINDING(ompi_op_create_f, fn *function, MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierr)
{
	MPI_Op made;
	int rc = gck_mpi_fortran_op(function, *commute != 0, &made);

	if (rc == MPI_SUCCESS)
		*op = PMPI_Op_c2f(made);
	set_ierr(ierr, rc);
}

#define ERRHANDLER(name, kind) \
	BINDING(name, fn *function, MPI_Fint *errhandler, MPI_Fint *ierr) \
	{ \
		MPI_Errhandler made; \
		int rc = gck_mpi_fortran_errhandler(kind, function, &made); \
\
		if (rc == MPI_SUCCESS) \
			*errhandler = PMPI_Errhandler_c2f(made); \
		set_ierr(ierr, rc); \
	}

ERRHANDLER(ompi_errhandler_create_f, GCK_MPI_COMM)
ERRHANDLER(ompi_comm_create_errhandler_f, GCK_MPI_COMM)
ERRHANDLER(ompi_win_create_errhandler_f, GCK_MPI_WIN)
ERRHANDLER(ompi_file_create_errhandler_f, GCK_MPI_FILE)

/* Attributes are addresses in MPI-2 and INTEGERs in MPI-1. */
#define KEYVAL(name, kind, is_aint, type) \
	BINDING(name, fn *copy, fn *delete, MPI_Fint *keyval, type *extra, MPI_Fint *ierr) \
	{ \
		set_ierr(ierr, gck_mpi_fortran_keyval(kind, is_aint, copy, delete, *extra, \
						      keyval)); \
	}

#define SET(name, kind, is_aint, type, f2c) \
	BINDING(name, MPI_Fint *handle, MPI_Fint *keyval, type *value, MPI_Fint *ierr) \
	{ \
		set_ierr(ierr, gck_mpi_fortran_attribute_set(kind, is_aint, f2c(*handle), \
							     *keyval, *value)); \
	}

#define GET(name, kind, is_aint, type, f2c) \
	BINDING(name, MPI_Fint *handle, MPI_Fint *keyval, type *value, MPI_Fint *flag, \
		MPI_Fint *ierr) \
	{ \
		intptr_t v = 0; \
		int exists = 0; \
		int rc = gck_mpi_fortran_attribute_get(kind, is_aint, f2c(*handle), *keyval, &v, \
						       &exists); \
\
		*flag = rc == MPI_SUCCESS && exists; \
		if (*flag) \
			*value = (type)v; \
		set_ierr(ierr, rc); \
	}

KEYVAL(ompi_keyval_create_f, GCK_MPI_COMM, false, MPI_Fint)
KEYVAL(ompi_comm_create_keyval_f, GCK_MPI_COMM, true, MPI_Aint)
KEYVAL(ompi_type_create_keyval_f, GCK_MPI_DATATYPE, true, MPI_Aint)
KEYVAL(ompi_win_create_keyval_f, GCK_MPI_WIN, true, MPI_Aint)
SET(ompi_attr_put_f, GCK_MPI_COMM, false, MPI_Fint, PMPI_Comm_f2c)
SET(ompi_comm_set_attr_f, GCK_MPI_COMM, true, MPI_Aint, PMPI_Comm_f2c)
SET(ompi_type_set_attr_f, GCK_MPI_DATATYPE, true, MPI_Aint, PMPI_Type_f2c)
SET(ompi_win_set_attr_f, GCK_MPI_WIN, true, MPI_Aint, PMPI_Win_f2c)
GET(ompi_attr_get_f, GCK_MPI_COMM, false, MPI_Fint, PMPI_Comm_f2c)
GET(ompi_comm_get_attr_f, GCK_MPI_COMM, true, MPI_Aint, PMPI_Comm_f2c)
GET(ompi_type_get_attr_f, GCK_MPI_DATATYPE, true, MPI_Aint, PMPI_Type_f2c)
GET(ompi_win_get_attr_f, GCK_MPI_WIN, true, MPI_Aint, PMPI_Win_f2c)

/* The Fortran callbacks of a generalised request; the C callbacks below call them. */
struct generalised {
	void (*query)(MPI_Aint *extra, MPI_Fint *status, MPI_Fint *ierr);
	void (*free)(MPI_Aint *extra, MPI_Fint *ierr);
	void (*cancel)(MPI_Aint *extra, MPI_Fint *complete, MPI_Fint *ierr);
	MPI_Aint extra;
};

static int query(void *state, MPI_Status *status)
{
	struct generalised *g = state;
	MPI_Fint rc = MPI_SUCCESS;

	g->query(&g->extra, (MPI_Fint *)status, &rc);
	return rc;
}

static int release(void *state)
{
	struct generalised *g = state;
	MPI_Fint rc = MPI_SUCCESS;

	g->free(&g->extra, &rc);
	free(g);
	return rc;
}

static int cancel(void *state, int complete)
{
	struct generalised *g = state;
	MPI_Fint rc = MPI_SUCCESS, done = complete != 0;

	g->cancel(&g->extra, &done, &rc);
	return rc;
}

BINDING(ompi_grequest_start_f, fn *query_fn, fn *free_fn, fn *cancel_fn, MPI_Aint *extra,
	MPI_Fint *request, MPI_Fint *ierr)
{
	struct generalised *g = (void *)gck_f_buffer(sizeof(*g));
	MPI_Request made;
	int rc;

	g->query = (void (*)(MPI_Aint *, MPI_Fint *, MPI_Fint *))query_fn;
	g->free = (void (*)(MPI_Aint *, MPI_Fint *))free_fn;
	g->cancel = (void (*)(MPI_Aint *, MPI_Fint *, MPI_Fint *))cancel_fn;
	g->extra = *extra;
	rc = PMPI_Grequest_start(query, release, cancel, g, &made);
	if (rc == MPI_SUCCESS)
		*request = PMPI_Request_c2f(made);
	else
		free(g);
	set_ierr(ierr, rc);
}

/* ---- others */

/* Returns only the size; Fortran has no use for the buffer's address. */
BINDING(ompi_buffer_detach_f, char *buffer, MPI_Fint *size, MPI_Fint *ierr)
{
	void *was;

	(void)buffer;
	set_ierr(ierr, PMPI_Buffer_detach(&was, size));
}

BINDING(ompi_type_get_contents_f, MPI_Fint *type, MPI_Fint *nints, MPI_Fint *naddresses,
	MPI_Fint *ntypes, MPI_Fint *ints, MPI_Aint *addresses, MPI_Fint *types, MPI_Fint *ierr)
{
	MPI_Datatype *made = gck_f_types(types, 0), t = PMPI_Type_f2c(*type);
	int a, b, n = 0, combiner, rc;

	free(made);
	made = (void *)gck_f_buffer(*ntypes * (int)sizeof(MPI_Datatype));
	rc = PMPI_Type_get_envelope(t, &a, &b, &n, &combiner);
	if (rc == MPI_SUCCESS)
		rc = PMPI_Type_get_contents(t, *nints, *naddresses, *ntypes, ints, addresses, made);
	for (int i = 0; rc == MPI_SUCCESS && i < n; i++)
		types[i] = PMPI_Type_c2f(made[i]);
	free(made);
	set_ierr(ierr, rc);
}

/* Functions that the stand-in does not support from Fortran report an error. */
static void refuse(const char *function, MPI_Fint *ierr)
{
	fprintf(stderr,
		"gpuckpt: %s is not supported from Fortran with --gpu-ckpt; call it from C, or run "
		"without --gpu-ckpt\n",
		function);
	PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION);
	set_ierr(ierr, MPI_ERR_UNSUPPORTED_OPERATION);
}

BINDING(ompi_comm_spawn_f, char *command, char *argv, MPI_Fint *maxprocs, MPI_Fint *info,
	MPI_Fint *root, MPI_Fint *comm, MPI_Fint *intercomm, MPI_Fint *codes, MPI_Fint *ierr)
{
	(void)command, (void)argv, (void)maxprocs, (void)info, (void)root, (void)comm,
		(void)intercomm;
	(void)codes;
	refuse("MPI_Comm_spawn", ierr);
}

BINDING(ompi_comm_spawn_multiple_f, MPI_Fint *count, char *commands, char *argv, MPI_Fint *maxprocs,
	MPI_Fint *info, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *intercomm, MPI_Fint *codes,
	MPI_Fint *ierr)
{
	(void)count, (void)commands, (void)argv, (void)maxprocs, (void)info, (void)root, (void)comm;
	(void)intercomm, (void)codes;
	refuse("MPI_Comm_spawn_multiple", ierr);
}

BINDING(ompi_register_datarep_f, char *name, fn *read, fn *write, fn *extent, MPI_Aint *extra,
	MPI_Fint *ierr, int length)
{
	(void)name, (void)read, (void)write, (void)extent, (void)extra, (void)length;
	refuse("MPI_Register_datarep", ierr);
}

/* ---- MPI_Sizeof of mpif.h: a function for each type and number of dimensions */

/* The parameters are the variable (or its descriptor), INTEGER size, and the optional INTEGER
 * ierror. */
#define SIZEOF(type, bytes) \
	SIZEOF_NAMES(mpi_sizeof_##type, bytes) \
	SIZEOF_NAMES(pmpi_sizeof_##type, bytes)

#define SIZEOF_NAMES(name, bytes) \
	GCK_F void name##_scalar_(const void *x, MPI_Fint *size, MPI_Fint *ierr); \
	void name##_scalar_(const void *x, MPI_Fint *size, MPI_Fint *ierr) \
	{ \
		(void)x; \
		*size = bytes; \
		if (ierr) \
			*ierr = MPI_SUCCESS; \
	} \
	RANK(name, 1) RANK(name, 2) RANK(name, 3) RANK(name, 4) RANK(name, 5) \
	RANK(name, 6) RANK(name, 7) RANK(name, 8) RANK(name, 9) RANK(name, 10) \
	RANK(name, 11) RANK(name, 12) RANK(name, 13) RANK(name, 14) RANK(name, 15)

/* The name for arrays of n dimensions. */
#define RANK(name, n) \
	GCK_F extern __typeof__(name##_scalar_) name##_r##n##_ \
		__attribute__((alias(#name "_scalar_")));

SIZEOF(character, 1)
SIZEOF(logical, 4)
SIZEOF(int8, 1)
SIZEOF(int16, 2)
SIZEOF(int32, 4)
SIZEOF(int64, 8)
SIZEOF(real32, 4)
SIZEOF(real64, 8)
SIZEOF(real128, 16)
SIZEOF(complex32, 8)
SIZEOF(complex64, 16)
SIZEOF(complex128, 32)

/* Open MPI's library exports it for linking; programs do not call it. */
GCK_F void mpiext_pcollreq_mpifh_dummy(void);
void mpiext_pcollreq_mpifh_dummy(void)
{
}

#include "shim/mpi/fortran/names.h"
