/* SPDX-License-Identifier: Apache-2.0
 * Chapters 12 and 14, external interfaces and tool support. */
#include "test/mpi/chapters/chapters.h"

static int query(void *extra, MPI_Status *s)
{
	MPI_Status_set_elements(s, MPI_INT, *(int *)extra);
	MPI_Status_set_cancelled(s, 0);
	s->MPI_SOURCE = 3;
	s->MPI_TAG = 4;
	return MPI_SUCCESS;
}

static int release(void *extra)
{
	*(int *)extra += 100;
	return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
	*(int *)extra += 10 + complete;
	return MPI_SUCCESS;
}

static void generalized(void)
{
	int v = 2, n, flag = 1;
	MPI_Request r;
	MPI_Status s;

	MPI_Grequest_start(query, release, cancel, &v, &r);
	MPI_Test(&r, &flag, &s);
	MPI_Cancel(&r);
	pending();
	MPI_Grequest_complete(r);
	MPI_Wait(&r, &s);
	MPI_Get_count(&s, MPI_INT, &n);
	put(" %d %d %d %d %d", flag, v, n, s.MPI_SOURCE, s.MPI_TAG);
}

static void threads(void)
{
	int level, is_main;

	MPI_Query_thread(&level);
	MPI_Is_thread_main(&is_main);
	put(" %d %d", level, is_main);
}

static void language(void)
{
	MPI_Fint raw[sizeof(MPI_Status) / sizeof(MPI_Fint)];
	MPI_Status s, back;
	MPI_Request r;
	int in;

	put(" %d %d %d", MPI_Comm_c2f(MPI_COMM_WORLD), MPI_Type_c2f(MPI_INT), MPI_Op_c2f(MPI_SUM));
	MPI_Irecv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r);
	r = MPI_Request_f2c(MPI_Request_c2f(r));
	pending();
	MPI_Send(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
	MPI_Wait(&r, &s);
	MPI_Status_c2f(&s, raw);
	MPI_Status_f2c(raw, &back);
	put(" %d %d %d", in, back.MPI_SOURCE, back.MPI_TAG);
}

static void variables(void)
{
	int level, n, count, index, value = 0;
	MPI_T_cvar_handle h;

	MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
	MPI_T_cvar_get_num(&n);
	put(" %d", n > 100);
	put_class(MPI_T_cvar_get_index("mpi_yield_when_idle", &index));
	MPI_T_cvar_handle_alloc(index, NULL, &h, &count);
	pending();
	MPI_T_cvar_read(h, &value);
	put(" %d %d", count, value);
	MPI_T_cvar_handle_free(&h);
	MPI_T_pvar_get_num(&n);
	put(" %d", n > 0);
	MPI_T_finalize();
}

const struct claim external[] = {
	{"generalized requests", generalized},
	{"threads", threads},
	{"handles and statuses of Fortran", language},
	{"control variables", variables},
	{NULL, NULL},
};
