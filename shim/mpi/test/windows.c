// SPDX-License-Identifier: Apache-2.0
/* Windows of each kind, with each kind of epoch and with cycles while operations are in
 * progress. */
#include "shim/mpi/test/windows.h"

#define N 100

int right, left;

void fresh(struct test_win *t)
{
	for (int i = 0; i < N; i++)
		t->v[i] = -1;
	if (MPI_Win_create(t->v, sizeof(t->v), sizeof(t->v[0]), MPI_INFO_NULL, MPI_COMM_WORLD,
			   &t->win)) {
		fprintf(stderr, "# no windows here: over TCP alone Open MPI wants --mca osc "
				"pt2pt\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Win_set_errhandler(t->win, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
}

void done(struct test_win *t)
{
	IS(MPI_Win_free(&t->win), MPI_SUCCESS);
	CHECK(t->win == MPI_WIN_NULL);
}

static void test_fence(void)
{
	struct test_win t;
	long out, in;

	fresh(&t);
	IS(MPI_Win_fence(MPI_MODE_NOPRECEDE, t.win), MPI_SUCCESS);
	for (int i = 0; i < 20; i++) {
		out = rank * 100 + i;
		in = -1;
		IS(MPI_Put(&out, 1, MPI_LONG, right, i, 1, MPI_LONG, t.win), MPI_SUCCESS);
		if (i % 7 == 3)
			cycle();
		IS(MPI_Win_fence(0, t.win), MPI_SUCCESS);
		IS(t.v[i], left * 100 + i);
		IS(MPI_Get(&in, 1, MPI_LONG, right, i, 1, MPI_LONG, t.win), MPI_SUCCESS);
		if (i % 7 == 5)
			cycle();
		IS(MPI_Win_fence(0, t.win), MPI_SUCCESS);
		IS(in, out);
	}
	t.v[50] = 0;
	IS(MPI_Win_fence(0, t.win), MPI_SUCCESS);
	out = rank + 1;
	for (int i = 0; i < size; i++)
		if (i != rank) /* osc/pt2pt may hang on operations on the rank itself */
			IS(MPI_Accumulate(&out, 1, MPI_LONG, i, 50, 1, MPI_LONG, MPI_SUM, t.win),
			   MPI_SUCCESS);
	cycle();
	IS(MPI_Win_fence(MPI_MODE_NOSUCCEED, t.win), MPI_SUCCESS);
	IS(t.v[50], size * (size + 1) / 2 - rank - 1);
	IS(MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, t.win), MPI_ERR_RMA_SYNC);
	done(&t);
}

static void test_types(void)
{
	struct test_win t;
	MPI_Datatype column;
	long out[10];

	fresh(&t);
	for (int i = 0; i < 10; i++)
		out[i] = rank * 1000 + i;
	MPI_Type_vector(10, 1, 10, MPI_LONG, &column);
	MPI_Type_commit(&column);
	MPI_Win_fence(0, t.win);
	IS(MPI_Put(out, 10, MPI_LONG, right, 3, 1, column, t.win), MPI_SUCCESS);
	MPI_Type_free(&column);
	cycle();
	MPI_Win_fence(0, t.win);
	for (int i = 0; i < N; i++)
		IS(t.v[i], i % 10 == 3 ? left * 1000 + i / 10 : -1);
	done(&t);
}

static void test_attributes(void)
{
	struct test_win t;
	int found = 0, equal;
	MPI_Group group, world;
	MPI_Info info;
	MPI_Errhandler handler;
	char name[MPI_MAX_OBJECT_NAME], text[100];
	void *p;

	fresh(&t);
	MPI_Win_set_name(t.win, "a window");
	MPI_Info_create(&info);
	MPI_Info_set(info, "no_locks", "false");
	IS(MPI_Win_set_info(t.win, info), MPI_SUCCESS);
	MPI_Info_free(&info);
	cycle();
	IS(MPI_Win_get_attr(t.win, MPI_WIN_BASE, &p, &found), MPI_SUCCESS);
	CHECK(found && p == t.v);
	MPI_Win_get_attr(t.win, MPI_WIN_SIZE, &p, &found);
	CHECK(found && *(MPI_Aint *)p == sizeof(t.v));
	MPI_Win_get_attr(t.win, MPI_WIN_DISP_UNIT, &p, &found);
	CHECK(found && *(int *)p == sizeof(long));
	MPI_Win_get_attr(t.win, MPI_WIN_CREATE_FLAVOR, &p, &found);
	CHECK(found && *(int *)p == MPI_WIN_FLAVOR_CREATE);
	MPI_Win_get_attr(t.win, MPI_WIN_MODEL, &p, &found);
	CHECK(found && *(int *)p == MPI_WIN_UNIFIED);
	IS(MPI_Win_get_name(t.win, name, &found), MPI_SUCCESS);
	CHECK(!strcmp(name, "a window"));
	IS(MPI_Win_get_group(t.win, &group), MPI_SUCCESS);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_compare(group, world, &equal);
	IS(equal, MPI_IDENT);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	IS(MPI_Win_get_info(t.win, &info), MPI_SUCCESS);
	MPI_Info_get(info, "no_locks", sizeof(text) - 1, text, &found);
	CHECK(!found || !strcmp(text, "false"));
	MPI_Info_free(&info);
	MPI_Win_get_errhandler(t.win, &handler);
	CHECK(handler == MPI_ERRORS_RETURN);
	done(&t);
}

static void test_no_locks(void)
{
	struct test_win t;
	MPI_Info info;
	char text[10] = "";
	int found = 0;
	long out = rank;

	MPI_Info_create(&info);
	MPI_Info_set(info, "no_locks", "true");
	MPI_Win_create(t.v, sizeof(t.v), sizeof(long), info, MPI_COMM_WORLD, &t.win);
	MPI_Info_free(&info);
	MPI_Win_set_errhandler(t.win, MPI_ERRORS_RETURN);
	MPI_Win_fence(0, t.win);
	MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, t.win);
	cycle();
	MPI_Win_fence(MPI_MODE_NOSUCCEED, t.win);
	IS(t.v[0], left);
	MPI_Win_get_info(t.win, &info);
	MPI_Info_get(info, "no_locks", sizeof(text) - 1, text, &found);
	CHECK(found && !strcmp(text, "true"));
	MPI_Info_free(&info);
	done(&t);
}

static void test_wrong(void)
{
	struct test_win t;
	long out = 0;

	fresh(&t);
	IS(MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_unlock(right, t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_flush(right, t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_flush_all(t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_unlock_all(t.win), MPI_ERR_RMA_SYNC);
	if (is_standing_in()) /* Open MPI alone does not detect these */
		IS(MPI_Win_complete(t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_wait(t.win), MPI_ERR_RMA_SYNC);
	IS(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, t.win), MPI_SUCCESS);
	if (size > 1)
		IS(MPI_Put(&out, 1, MPI_LONG, left == right ? rank : left, 0, 1, MPI_LONG, t.win),
		   MPI_ERR_RMA_SYNC);
	IS(MPI_Put(&out, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, t.win), MPI_SUCCESS);
	if (is_standing_in()) {
		IS(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, t.win), MPI_ERR_RMA_SYNC);
		IS(MPI_Win_lock_all(0, t.win), MPI_ERR_RMA_SYNC);
	}
	IS(MPI_Win_unlock(right, t.win), MPI_SUCCESS);
	done(&t);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	begin();
	right = (rank + 1) % size;
	left = (rank + size - 1) % size;
	family("fences", test_fence);
	family("datatypes in windows", test_types);
	family("attributes, group, info, name", test_attributes);
	family("windows without locks", test_no_locks);
	family("wrong calls", test_wrong);
	family("post, start, complete, wait", test_active);
	family("origins that start late", test_active_late);
	family("post and start without a check", test_active_nocheck);
	family("locks", test_locks);
	family("readers and a writer", test_readers);
	family("lock_all, flush, atomic operations", test_lock_all);
	family("operations with requests", test_requests);
	family("dynamic windows", test_dynamic);
	family("allocated windows", test_allocate);
	family("shared windows", test_shared);
	family("windows of some ranks", test_some_ranks);
	family("MPI_Alloc_mem", test_memory);
	return end();
}
