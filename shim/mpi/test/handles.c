/* SPDX-License-Identifier: Apache-2.0
 * Invalid handles: the error classes are the same with and without the stand-in. One rank. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "test/support/tap.h"

static int class_of(int rc)
{
	int class = rc;

	MPI_Error_class(rc, &class);
	return class;
}

#define IS(call, class) is_int(class_of(call), class, #call " is " #class)

static char junk[64]; /* an invalid handle; zeroed, as freed memory may be */

static void communicators(void)
{
	MPI_Comm none = MPI_COMM_NULL, made;
	int n;

	IS(MPI_Comm_rank(NULL, &n), MPI_ERR_COMM);
	IS(MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM);
	IS(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
	IS(MPI_Comm_dup(NULL, &made), MPI_ERR_COMM);
	IS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
	IS(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &made), MPI_ERR_COMM);
	IS(MPI_Comm_free(&none), MPI_ERR_COMM);
	IS(MPI_Barrier(NULL), MPI_ERR_COMM);
	IS(MPI_Topo_test(MPI_COMM_NULL, &n), MPI_ERR_COMM);
	IS(MPI_Cart_rank(MPI_COMM_WORLD, &n, &n), MPI_ERR_TOPOLOGY);
}

static void messages(void)
{
	MPI_Request request = NULL;
	MPI_Status status;
	int n = 0;

	IS(MPI_Send(&n, 1, MPI_INT, 0, 1, NULL), MPI_ERR_COMM);
	IS(MPI_Send(&n, 1, NULL, 0, 1, MPI_COMM_SELF), MPI_ERR_TYPE);
	IS(MPI_Send(&n, 1, MPI_DATATYPE_NULL, 0, 1, MPI_COMM_SELF), MPI_ERR_TYPE);
	IS(MPI_Send(&n, -1, MPI_INT, 0, 1, MPI_COMM_SELF), MPI_ERR_COUNT);
	IS(MPI_Send(&n, 1, MPI_INT, 7, 1, MPI_COMM_SELF), MPI_ERR_RANK);
	IS(MPI_Send(&n, 1, MPI_INT, 0, -7, MPI_COMM_SELF), MPI_ERR_TAG);
	IS(MPI_Recv(&n, 1, MPI_INT, 7, 1, MPI_COMM_SELF, &status), MPI_ERR_RANK);
	IS(MPI_Recv(&n, 1, NULL, 0, 1, MPI_COMM_SELF, &status), MPI_ERR_TYPE);
	IS(MPI_Irecv(&n, 1, MPI_INT, 0, 1, MPI_COMM_NULL, &request), MPI_ERR_COMM);
	IS(MPI_Isend(&n, 1, MPI_INT, 0, 1, MPI_COMM_SELF, NULL), MPI_ERR_REQUEST);
	request = NULL;
	IS(MPI_Wait(NULL, &status), MPI_ERR_REQUEST);
	IS(MPI_Waitall(1, NULL, &status), MPI_ERR_REQUEST);
	IS(MPI_Cancel(NULL), MPI_ERR_REQUEST);
	request = MPI_REQUEST_NULL;
	IS(MPI_Wait(&request, &status), MPI_SUCCESS);
	IS(MPI_Request_free(&request), MPI_ERR_REQUEST);
}

static void types(void)
{
	MPI_Datatype none = MPI_DATATYPE_NULL, made, types[2] = {MPI_INT, NULL};
	int n, lengths[2] = {1, 1};
	MPI_Aint at[2] = {0, 8};

	IS(MPI_Type_size(NULL, &n), MPI_ERR_TYPE);
	IS(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE);
	IS(MPI_Type_contiguous(2, NULL, &made), MPI_ERR_TYPE);
	IS(MPI_Type_contiguous(-2, MPI_INT, &made), MPI_ERR_COUNT);
	IS(MPI_Type_create_struct(2, lengths, at, types, &made), MPI_ERR_TYPE);
	IS(MPI_Type_commit(&none), MPI_ERR_TYPE);
	IS(MPI_Type_free(&none), MPI_ERR_TYPE);
	IS(MPI_Type_free(NULL), MPI_ERR_TYPE);
	none = MPI_INT;
	IS(MPI_Type_free(&none), MPI_ERR_TYPE);
	ok(none == MPI_INT, "a predefined type is not freed");
	IS(MPI_Type_dup(NULL, &made), MPI_ERR_TYPE);
}

static void operations(void)
{
	MPI_Op op = MPI_SUM;
	MPI_Group group = MPI_GROUP_NULL;
	int in = 1, out;

	IS(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF), MPI_ERR_OP);
	IS(MPI_Op_free(&op), MPI_ERR_OP);
	IS(MPI_Bcast(&in, 1, MPI_INT, 3, MPI_COMM_SELF), MPI_ERR_ROOT);
	IS(MPI_Group_size(MPI_GROUP_NULL, &out), MPI_ERR_GROUP);
	IS(MPI_Group_size(NULL, &out), MPI_ERR_GROUP);
	IS(MPI_Group_free(&group), MPI_ERR_GROUP);
	IS(MPI_Comm_group(NULL, &group), MPI_ERR_COMM);
	IS(MPI_Comm_group(MPI_COMM_SELF, NULL), MPI_ERR_ARG);
}

static void others(void)
{
	MPI_Info info = MPI_INFO_NULL;
	MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
	int n;

	IS(MPI_Info_set(MPI_INFO_NULL, "k", "v"), MPI_ERR_INFO);
	IS(MPI_Info_set(NULL, "k", "v"), MPI_ERR_INFO);
	IS(MPI_Info_free(&info), MPI_ERR_INFO);
	IS(MPI_Errhandler_free(&handler), MPI_ERR_ARG);
	IS(MPI_Errhandler_free(NULL), MPI_ERR_ARG);
	IS(MPI_Comm_set_errhandler(NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM);
	IS(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ARG);
	IS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
	IS(MPI_Win_fence(0, NULL), MPI_ERR_WIN);
	IS(MPI_Put(&n, 1, MPI_INT, 0, 0, 1, MPI_INT, NULL), MPI_ERR_WIN);
	IS(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE);
	IS(MPI_File_sync(NULL), MPI_ERR_FILE);
	IS(MPI_Comm_get_attr(NULL, MPI_TAG_UB, &n, &n), MPI_ERR_COMM);
	IS(MPI_Get_address(&n, NULL), MPI_ERR_ARG);
	IS(MPI_Dims_create(4, 2, NULL), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
	int n;

	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	communicators();
	messages();
	types();
	operations();
	others();
	if (getenv("LD_PRELOAD") && *getenv("LD_PRELOAD")) { /* Open MPI itself crashes on it */
		IS(MPI_Comm_rank((MPI_Comm)junk, &n), MPI_ERR_COMM);
		IS(MPI_Type_size((MPI_Datatype)MPI_COMM_SELF, &n), MPI_ERR_TYPE);
	}
	MPI_Finalize();
	return tap_done();
}
