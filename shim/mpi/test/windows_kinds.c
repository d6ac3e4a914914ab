// SPDX-License-Identifier: Apache-2.0
/* Windows over memory of all kinds. */
#include "shim/mpi/test/windows.h"

void test_dynamic(void)
{
	long *mine = malloc(10 * sizeof(*mine)), *more = malloc(10 * sizeof(*more)),
	     out = rank + 40;
	MPI_Aint at[2], theirs[2];
	MPI_Win win;

	memset(mine, 0, 10 * sizeof(*mine));
	memset(more, 0, 10 * sizeof(*more));
	IS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
	IS(MPI_Win_attach(win, mine, 10 * sizeof(*mine)), MPI_SUCCESS);
	IS(MPI_Win_attach(win, more, 10 * sizeof(*more)), MPI_SUCCESS);
	MPI_Get_address(mine, &at[0]);
	MPI_Get_address(more, &at[1]);
	MPI_Sendrecv(at, 2, MPI_AINT, left, 0, theirs, 2, MPI_AINT, right, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	cycle();
	MPI_Win_lock_all(0, win);
	IS(MPI_Put(&out, 1, MPI_LONG, right, theirs[0] + 8, 1, MPI_LONG, win), MPI_SUCCESS);
	cycle();
	IS(MPI_Put(&out, 1, MPI_LONG, right, theirs[1] + 16, 1, MPI_LONG, win), MPI_SUCCESS);
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(mine[1], left + 40);
	IS(more[2], left + 40);
	IS(MPI_Win_detach(win, mine), MPI_SUCCESS);
	cycle();
	IS(MPI_Win_detach(win, more), MPI_SUCCESS);
	IS(MPI_Win_free(&win), MPI_SUCCESS);
	free(mine);
	free(more);
}

void test_allocate(void)
{
	long *p = NULL, *q = NULL, out = rank * 3;
	MPI_Win win;
	int found, *flavor;
	MPI_Aint bytes;
	int unit;

	IS(MPI_Win_allocate(100 * sizeof(*p), sizeof(*p), MPI_INFO_NULL, MPI_COMM_WORLD, &p, &win),
	   MPI_SUCCESS);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
	CHECK(found && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
	MPI_Win_get_attr(win, MPI_WIN_BASE, &q, &found);
	CHECK(found && p == q);
	IS(MPI_Win_shared_query(win, 0, &bytes, &unit, &q), MPI_ERR_RMA_FLAVOR);
	MPI_Win_fence(0, win);
	MPI_Put(&out, 1, MPI_LONG, right, 99, 1, MPI_LONG, win);
	cycle();
	MPI_Win_fence(0, win);
	IS(p[99], left * 3);
	IS(MPI_Win_free(&win), MPI_SUCCESS);
}

static void check_shared(MPI_Win win, long add)
{
	for (int i = 0; i < size; i++) {
		MPI_Aint bytes;
		long *p;
		int unit;

		IS(MPI_Win_shared_query(win, i, &bytes, &unit, &p), MPI_SUCCESS);
		CHECK(bytes >=
		      (i + 1) * 1000 * (long)sizeof(long)); /* Open MPI rounds up to pages */
		IS(unit, sizeof(long));
		for (int k = 0; k < (i + 1) * 1000; k++)
			IS(p[k], i * 100000 + k + add);
	}
}

/* The inode of the object mapped at an address, from /proc/self/maps. */
static unsigned long object_at(const void *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to, inode = 0;
	char line[600];

	while (f && !inode && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3 ||
		    (unsigned long)p < from || (unsigned long)p >= to)
			inode = 0;
	if (f)
		fclose(f);
	return inode;
}

static void shared(const char *apart)
{
	unsigned long object, same;
	int n = (rank + 1) * 1000;
	long *p, *first;
	MPI_Aint bytes;
	MPI_Info info;
	MPI_Win win;
	int unit;

	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", apart);
	IS(MPI_Win_allocate_shared(n * (MPI_Aint)sizeof(*p), sizeof(*p), info, MPI_COMM_WORLD, &p,
				   &win),
	   MPI_SUCCESS);
	MPI_Info_free(&info);
	for (int k = 0; k < n; k++)
		p[k] = rank * 100000 + k;
	MPI_Win_fence(0, win);
	check_shared(win, 0);
	cycle();
	object = same = object_at(p);
	MPI_Bcast(&same, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
	if (is_standing_in())
		CHECK(object == same);
	check_shared(win, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < n; k++)
		p[k] += 7;
	MPI_Win_fence(0, win);
	check_shared(win, 7);
	cycle();
	check_shared(win, 7);
	IS(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first), MPI_SUCCESS);
	IS(first[1], 8);
	MPI_Win_fence(0, win);
	p[0] = -9;
	MPI_Win_fence(0, win);
	n = 0;
	MPI_Put(&n, 1, MPI_INT, right, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	IS(*(int *)p, 0);
	IS(MPI_Win_free(&win), MPI_SUCCESS);
}

/* Only the ranks from `first` on give memory. In Open MPI a rank without memory has an address,
 * except where the segments are apart. */
static void shared_by_some(const char *apart, int first)
{
	bool none = !strcmp(apart, "true");
	MPI_Aint mine = rank >= first ? sizeof(long) : 0, bytes;
	long *p, *of_first = NULL, *q;
	MPI_Info info;
	MPI_Win win;
	int unit;

	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", apart);
	IS(MPI_Win_allocate_shared(mine, sizeof(long), info, MPI_COMM_WORLD, &p, &win),
	   MPI_SUCCESS);
	MPI_Info_free(&info);
	IS(!p, none && !mine);
	cycle();
	for (int i = 0; i < size; i++) {
		IS(MPI_Win_shared_query(win, i, &bytes, &unit, &q), MPI_SUCCESS);
		IS(bytes, i < first ? 0 : none ? 4096 : sizeof(long));
		IS(!q, none && i < first);
		if (i == first)
			of_first = q;
	}
	IS(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &q), MPI_SUCCESS);
	IS(!bytes, first == size);
	CHECK(q == (first == size ? NULL : of_first));
	IS(MPI_Win_free(&win), MPI_SUCCESS);
}

void test_shared(void)
{
	shared("false");
	shared("true");
	for (int first = 0; first <= size; first++) {
		shared_by_some("false", first);
		shared_by_some("true", first);
	}
}

/* Each pair of neighbours has a window, and a restart makes all in one order. */
void test_some_ranks(void)
{
	struct {
		MPI_Comm comm;
		MPI_Win win;
		long v;
	} pair[2];
	long out = rank + 11;

	for (int i = 0; i < 2; i++) {
		int color = ((rank + i) % size) / 2;

		MPI_Comm_split(MPI_COMM_WORLD, color, rank, &pair[i].comm);
		pair[i].v = -1;
		for (int turn = 0; turn <= size / 2; turn++) { /* see gck_mpi_private_each */
			if (turn == color)
				IS(MPI_Win_create(&pair[i].v, sizeof(long), 1, MPI_INFO_NULL,
						  pair[i].comm, &pair[i].win),
				   MPI_SUCCESS);
			MPI_Barrier(MPI_COMM_WORLD);
		}
		IS(MPI_Comm_free(&pair[i].comm), MPI_SUCCESS);
	}
	for (int i = 0; i < 2; i++) {
		MPI_Group group;
		int n;

		MPI_Win_get_group(pair[i].win, &group);
		MPI_Group_size(group, &n);
		MPI_Win_fence(0, pair[i].win);
		if (n > 1) {
			int me;

			MPI_Group_rank(group, &me);
			MPI_Put(&out, 1, MPI_LONG, (me + 1) % n, 0, 1, MPI_LONG, pair[i].win);
		}
		cycle();
		MPI_Win_fence(0, pair[i].win);
		CHECK(n == 1 || (pair[i].v >= 11 && pair[i].v < size + 11));
		MPI_Group_free(&group);
	}
	IS(MPI_Win_free(&pair[0].win), MPI_SUCCESS);
	IS(MPI_Win_free(&pair[1].win), MPI_SUCCESS);
}

void test_memory(void)
{
	char *p = NULL, *q = NULL;

	IS(MPI_Alloc_mem(12345, MPI_INFO_NULL, &p), MPI_SUCCESS);
	CHECK(p);
	memset(p, 7, 12345);
	cycle();
	IS(p[12344], 7);
	IS(MPI_Free_mem(p), MPI_SUCCESS);
	IS(MPI_Alloc_mem(0, MPI_INFO_NULL, &q), MPI_SUCCESS);
	IS(MPI_Free_mem(q), MPI_SUCCESS);
}
