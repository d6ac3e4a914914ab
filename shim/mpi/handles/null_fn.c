/* SPDX-License-Identifier: Apache-2.0
 * What MPI_COMM_DUP_FN, MPI_NULL_COPY_FN and their kin are in C: mpi.h's macros name these. */
#include "shim/mpi/handles/handle.h"

#define NULL_COPY(name, type) \
	int name(type object, int keyval, void *extra, void *in, void *out, int *flag) \
	{ \
		(void)object, (void)keyval, (void)extra, (void)in, (void)out; \
		*flag = 0; \
		return MPI_SUCCESS; \
	}

#define DUP(name, type) \
	int name(type object, int keyval, void *extra, void *in, void *out, int *flag) \
	{ \
		(void)object, (void)keyval, (void)extra; \
		*(void **)out = in; \
		*flag = 1; \
		return MPI_SUCCESS; \
	}

#define NULL_DELETE(name, type) \
	int name(type object, int keyval, void *value, void *extra) \
	{ \
		(void)object, (void)keyval, (void)value, (void)extra; \
		return MPI_SUCCESS; \
	}

NULL_COPY(OMPI_C_MPI_COMM_NULL_COPY_FN, MPI_Comm)
NULL_COPY(OMPI_C_MPI_TYPE_NULL_COPY_FN, MPI_Datatype)
NULL_COPY(OMPI_C_MPI_WIN_NULL_COPY_FN, MPI_Win)
NULL_COPY(OMPI_C_MPI_NULL_COPY_FN, MPI_Comm)
DUP(OMPI_C_MPI_COMM_DUP_FN, MPI_Comm)
DUP(OMPI_C_MPI_TYPE_DUP_FN, MPI_Datatype)
DUP(OMPI_C_MPI_WIN_DUP_FN, MPI_Win)
DUP(OMPI_C_MPI_DUP_FN, MPI_Comm)
NULL_DELETE(OMPI_C_MPI_COMM_NULL_DELETE_FN, MPI_Comm)
NULL_DELETE(OMPI_C_MPI_TYPE_NULL_DELETE_FN, MPI_Datatype)
NULL_DELETE(OMPI_C_MPI_WIN_NULL_DELETE_FN, MPI_Win)
NULL_DELETE(OMPI_C_MPI_NULL_DELETE_FN, MPI_Comm)
