// SPDX-License-Identifier: Apache-2.0
/* Epochs among some ranks, locks, atomic operations. */
#include <unistd.h>

#include "shim/mpi/test/windows.h"

static MPI_Group group_of(int n, const int *ranks)
{
	MPI_Group world, group;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, n, ranks, &group);
	MPI_Group_free(&world);
	return group;
}

/* Each rank writes to its right neighbour and reads what its left one wrote. */
static void ring(int assert, int rounds)
{
	struct test_win t;
	MPI_Group from = group_of(1, &left), to = group_of(1, &right);

	fresh(&t);
	for (int i = 0; i < rounds; i++) {
		long out = rank * 1000 + i;
		int flag = 0;

		if (rank == i % size)
			usleep(2000); /* the left neighbour waits for the post */
		if (!(assert & MPI_MODE_NOCHECK))
			IS(t.v[i], -1);
		IS(MPI_Win_post(from, assert, t.win), MPI_SUCCESS);
		if (i == 1)
			cycle();
		if (assert & MPI_MODE_NOCHECK)
			MPI_Barrier(MPI_COMM_WORLD);
		IS(MPI_Win_start(to, assert, t.win), MPI_SUCCESS);
		if (i == 2)
			cycle();
		IS(MPI_Put(&out, 1, MPI_LONG, right, i, 1, MPI_LONG, t.win), MPI_SUCCESS);
		if (i == 3)
			cycle();
		IS(MPI_Win_complete(t.win), MPI_SUCCESS);
		if (i == 4)
			cycle();
		if (i % 2)
			IS(MPI_Win_wait(t.win), MPI_SUCCESS);
		while (i % 2 == 0 && !flag)
			IS(MPI_Win_test(t.win, &flag), MPI_SUCCESS);
		IS(t.v[i], left * 1000 + i);
	}
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	done(&t);
}

void test_active(void)
{
	ring(0, 20);
}

void test_active_nocheck(void)
{
	ring(MPI_MODE_NOCHECK, 6);
}

/* Rank 0 is exposed to all others, which start one after another, with cycles between. */
void test_active_late(void)
{
	struct test_win t;
	int zero = 0, *others = calloc((size_t)size, sizeof(int));
	MPI_Group to = group_of(1, &zero), from;

	for (int i = 1; i < size; i++)
		others[i - 1] = i;
	from = group_of(size - 1, others);
	fresh(&t);
	for (int turn = 1; turn < size; turn++) {
		long out = rank + 500;

		if (turn == 1 && rank == 0)
			IS(MPI_Win_post(from, 0, t.win), MPI_SUCCESS);
		if (turn == rank) {
			IS(MPI_Win_start(to, 0, t.win), MPI_SUCCESS);
			IS(MPI_Put(&out, 1, MPI_LONG, 0, rank, 1, MPI_LONG, t.win), MPI_SUCCESS);
		}
		cycle();
		if (turn == rank)
			IS(MPI_Win_complete(t.win), MPI_SUCCESS);
		cycle();
	}
	if (rank == 0 && size > 1) {
		IS(MPI_Win_wait(t.win), MPI_SUCCESS);
		for (int i = 1; i < size; i++)
			IS(t.v[i], i + 500);
	}
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	free(others);
	done(&t);
}

/* A counter is read and written under an exclusive lock. */
void test_locks(void)
{
	struct test_win t;
	const int rounds = 50;

	fresh(&t);
	t.v[0] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < rounds; i++)
		for (int k = 0; k < size; k++) {
			int target = (rank + k) % size;
			long x = -5;

			IS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, t.win), MPI_SUCCESS);
			IS(MPI_Get(&x, 1, MPI_LONG, target, 0, 1, MPI_LONG, t.win), MPI_SUCCESS);
			IS(MPI_Win_flush(target, t.win), MPI_SUCCESS);
			x++;
			IS(MPI_Put(&x, 1, MPI_LONG, target, 0, 1, MPI_LONG, t.win), MPI_SUCCESS);
			IS(MPI_Win_unlock(target, t.win), MPI_SUCCESS);
		}
	MPI_Barrier(MPI_COMM_WORLD);
	IS(t.v[0], size * rounds);
	/* each rank holds the lock of its right neighbour over a restart */
	IS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, t.win), MPI_SUCCESS);
	t.v[1] = rank;
	IS(MPI_Put(&t.v[1], 1, MPI_LONG, right, 2, 1, MPI_LONG, t.win), MPI_SUCCESS);
	cycle();
	IS(MPI_Win_unlock(right, t.win), MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(t.v[2], left);
	done(&t);
}

/* Readers never see two different halves; cycles come at any time. */
void test_readers(void)
{
	struct test_win t;

	fresh(&t);
	t.v[0] = t.v[1] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 1; i <= 30; i++) {
		long x[2] = {i, i};

		if (rank == 0) {
			IS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, t.win), MPI_SUCCESS);
			MPI_Put(x, 1, MPI_LONG, size - 1, 0, 1, MPI_LONG, t.win);
			IS(MPI_Win_flush(size - 1, t.win), MPI_SUCCESS);
			MPI_Put(x + 1, 1, MPI_LONG, size - 1, 1, 1, MPI_LONG, t.win);
		} else {
			IS(MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, t.win), MPI_SUCCESS);
			MPI_Get(x, 1, MPI_LONG, size - 1, 0, 1, MPI_LONG, t.win);
			IS(MPI_Win_flush_local(size - 1, t.win), MPI_SUCCESS);
			usleep(200);
			MPI_Get(x + 1, 1, MPI_LONG, size - 1, 1, 1, MPI_LONG, t.win);
		}
		IS(MPI_Win_unlock(size - 1, t.win), MPI_SUCCESS);
		IS(x[0], x[1]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	done(&t);
}

void test_lock_all(void)
{
	struct test_win t;
	long one = 1, was = -1, compare, mine = rank, out[3] = {1, 2, 3}, in[3];

	fresh(&t);
	for (int i = 0; i < 10; i++)
		t.v[i] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_Win_lock_all(0, t.win), MPI_SUCCESS);
	for (int i = 0; i < 40; i++) {
		IS(MPI_Fetch_and_op(&one, &was, MPI_LONG, right, 0, MPI_SUM, t.win), MPI_SUCCESS);
		if (i == 17)
			cycle();
		IS(MPI_Win_flush(right, t.win), MPI_SUCCESS);
		IS(was, i);
		IS(MPI_Get_accumulate(out, 3, MPI_LONG, in, 3, MPI_LONG, right, 1, 3, MPI_LONG,
				      MPI_SUM, t.win),
		   MPI_SUCCESS);
		if (i == 23)
			cycle();
		IS(MPI_Win_flush_all(t.win), MPI_SUCCESS);
		IS(in[2], 3 * i);
	}
	compare = 0;
	if (size > 1) /* osc/rdma crashes on an operation on the rank itself */
		IS(MPI_Compare_and_swap(&mine, &compare, &was, MPI_LONG, right, 5, t.win),
		   MPI_SUCCESS);
	IS(MPI_Win_flush_local_all(t.win), MPI_SUCCESS);
	cycle();
	IS(MPI_Win_sync(t.win), MPI_SUCCESS);
	IS(MPI_Win_unlock_all(t.win), MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(t.v[0], 40);
	if (size > 1)
		IS(t.v[5], left);
	done(&t);
}

void test_requests(void)
{
	struct test_win t;
	MPI_Request r[4];
	long out = rank * 10, in = -1, sum = 1, was = -1;

	fresh(&t);
	t.v[1] = rank + 70;
	t.v[2] = t.v[3] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_Win_lock_all(0, t.win), MPI_SUCCESS);
	IS(MPI_Rput(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, t.win, &r[0]), MPI_SUCCESS);
	IS(MPI_Rget(&in, 1, MPI_LONG, right, 1, 1, MPI_LONG, t.win, &r[1]), MPI_SUCCESS);
	IS(MPI_Raccumulate(&sum, 1, MPI_LONG, right, 2, 1, MPI_LONG, MPI_SUM, t.win, &r[2]),
	   MPI_SUCCESS);
	IS(MPI_Rget_accumulate(&sum, 1, MPI_LONG, &was, 1, MPI_LONG, right, 3, 1, MPI_LONG, MPI_SUM,
			       t.win, &r[3]),
	   MPI_SUCCESS);
	cycle();
	IS(MPI_Waitall(4, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
	CHECK(r[0] == MPI_REQUEST_NULL);
	IS(in, right + 70);
	IS(was, 0);
	IS(MPI_Win_unlock_all(t.win), MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(t.v[0], left * 10);
	IS(t.v[2], 1);
	IS(t.v[3], 1);
	done(&t);
}
