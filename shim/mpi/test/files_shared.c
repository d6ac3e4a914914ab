// SPDX-License-Identifier: Apache-2.0
/* The shared file pointer, requests, split collectives. */
#include "shim/mpi/test/files.h"

static void int_view(MPI_File f, MPI_Offset disp)
{
	IS(MPI_File_set_view(f, disp, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_SUCCESS);
}

/* All ranks write in any order; the file then has all of it. */
void test_shared(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Offset at = -1;
	int v, seen = 0;

	int_view(f, 0);
	for (int i = 0; i < 10; i++) {
		v = value(rank, i);
		IS(MPI_File_write_shared(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
		if (i == 4)
			cycle();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_get_position_shared(f, &at), MPI_SUCCESS);
	IS(at, 10 * size);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET), MPI_SUCCESS);
	cycle();
	for (int i = 0; i < 10; i++) {
		IS(MPI_File_read_shared(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
		seen += v;
		if (i == 6)
			cycle();
	}
	MPI_Allreduce(MPI_IN_PLACE, &seen, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	v = 0;
	for (int r = 0; r < size; r++)
		for (int i = 0; i < 10; i++)
			v += value(r, i);
	IS(seen, v);
	done(f);
}

void test_ordered(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	int v[3], w[3];

	int_view(f, 0);
	for (int turn = 0; turn < 4; turn++) {
		for (int i = 0; i < 3; i++)
			v[i] = value(rank, turn * 3 + i);
		IS(MPI_File_write_ordered(f, v, 3, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
		if (turn % 2)
			cycle();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_seek_shared(f, 3 * size, MPI_SEEK_SET), MPI_SUCCESS);
	IS(MPI_File_read_ordered(f, w, 3, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(w[0], value(rank, 3));
	IS(w[2], value(rank, 5));
	done(f);
}

/* Such a file allows only the shared pointer. */
void test_sequential(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_WRONLY);
	int v[2] = {0}, amode = MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, got;

	if (rank == 0)
		for (int i = 0; i < 8 * size; i++)
			MPI_File_write_at(f, i * (MPI_Offset)sizeof(int), &i, 1, MPI_INT,
					  MPI_STATUS_IGNORE);
	done(f);
	IS(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &f), MPI_SUCCESS);
	IS(MPI_File_read_ordered(f, v, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(v[0], 2 * rank);
	cycle();
	IS(MPI_File_read_ordered(f, v, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(v[1], 2 * size + 2 * rank + 1);
	MPI_File_get_amode(f, &got);
	IS(got, amode);
	done(f);
}

void test_requests(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	const MPI_Offset mine = rank * 5 * N;
	MPI_Request r[5];
	MPI_Status s[5];
	int v[5 * N], w[5 * N];

	for (int i = 0; i < 5 * N; i++)
		v[i] = value(rank, i);
	int_view(f, 0);
	MPI_File_seek(f, mine + 2 * N, MPI_SEEK_SET);
	IS(MPI_File_iwrite_at(f, mine, v, N, MPI_INT, &r[0]), MPI_SUCCESS);
	IS(MPI_File_iwrite_at_all(f, mine + N, v + N, N, MPI_INT, &r[1]), MPI_SUCCESS);
	IS(MPI_File_iwrite(f, v + 2 * N, N, MPI_INT, &r[2]), MPI_SUCCESS);
	IS(MPI_File_iwrite_all(f, v + 3 * N, N, MPI_INT, &r[3]), MPI_SUCCESS);
	IS(MPI_File_iwrite(f, v + 4 * N, N, MPI_INT, &r[4]), MPI_SUCCESS);
	cycle();
	IS(MPI_Waitall(5, r, s), MPI_SUCCESS);
	for (int i = 0; i < 5; i++)
		IS(count_of(&s[i], MPI_INT), N);
	MPI_File_sync(f);
	MPI_Barrier(MPI_COMM_WORLD);
	memset(w, 0, sizeof(w));
	MPI_File_seek(f, mine + 2 * N, MPI_SEEK_SET);
	IS(MPI_File_iread_at(f, mine, w, N, MPI_INT, &r[0]), MPI_SUCCESS);
	IS(MPI_File_iread_at_all(f, mine + N, w + N, N, MPI_INT, &r[1]), MPI_SUCCESS);
	IS(MPI_File_iread(f, w + 2 * N, N, MPI_INT, &r[2]), MPI_SUCCESS);
	IS(MPI_File_iread_all(f, w + 3 * N, N, MPI_INT, &r[3]), MPI_SUCCESS);
	MPI_File_seek_shared(f, mine + 4 * N, MPI_SEEK_SET);
	IS(MPI_File_iread_at(f, mine + 4 * N, w + 4 * N, N, MPI_INT, &r[4]), MPI_SUCCESS);
	cycle();
	IS(MPI_Waitall(5, r, s), MPI_SUCCESS);
	IS(memcmp(v, w, sizeof(v)), 0);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
	IS(MPI_File_iread_shared(f, w, N, MPI_INT, &r[0]), MPI_SUCCESS);
	cycle();
	IS(MPI_Wait(&r[0], &s[0]), MPI_SUCCESS);
	IS(count_of(&s[0], MPI_INT), N);
	IS(MPI_File_iwrite_shared(f, w, N, MPI_INT, &r[0]), MPI_SUCCESS);
	IS(MPI_Wait(&r[0], &s[0]), MPI_SUCCESS);
	done(f);
}

void test_split(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Status s;
	int v[N], w[N];

	for (int i = 0; i < N; i++)
		v[i] = value(rank, i);
	int_view(f, rank * (MPI_Offset)sizeof(v));
	IS(MPI_File_write_all_begin(f, v, N / 2, MPI_INT), MPI_SUCCESS);
	CHECK(MPI_File_write_all_begin(f, v, N / 2, MPI_INT) != MPI_SUCCESS);
	cycle();
	IS(MPI_File_write_all_end(f, v, &s), MPI_SUCCESS);
	IS(count_of(&s, MPI_INT), N / 2);
	IS(MPI_File_write_at_all_begin(f, N / 2, v + N / 2, N / 2, MPI_INT), MPI_SUCCESS);
	IS(MPI_File_write_at_all_end(f, v + N / 2, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(MPI_File_read_at_all_begin(f, 0, w, N / 2, MPI_INT), MPI_SUCCESS);
	cycle();
	IS(MPI_File_read_at_all_end(f, w, &s), MPI_SUCCESS);
	IS(MPI_File_read_all_begin(f, w + N / 2, N / 2, MPI_INT), MPI_SUCCESS);
	IS(MPI_File_read_all_end(f, w + N / 2, &s), MPI_SUCCESS);
	IS(count_of(&s, MPI_INT), N / 2);
	IS(memcmp(v, w, sizeof(v)), 0);
	MPI_Barrier(MPI_COMM_WORLD);
	int_view(f, 0);
	IS(MPI_File_write_ordered_begin(f, v, 2, MPI_INT), MPI_SUCCESS);
	cycle();
	IS(MPI_File_write_ordered_end(f, v, &s), MPI_SUCCESS);
	IS(count_of(&s, MPI_INT), 2);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
	IS(MPI_File_read_ordered_begin(f, w, 2, MPI_INT), MPI_SUCCESS);
	IS(MPI_File_read_ordered_end(f, w, &s), MPI_SUCCESS);
	IS(w[1], value(rank, 1));
	done(f);
}

void test_some_ranks(void)
{
	char mine[600], half[600];
	MPI_File f[2];
	MPI_Comm comm;
	int v[2] = {-1, -1};

	snprintf(mine, sizeof(mine), "%s.%d", path, rank);
	snprintf(half, sizeof(half), "%s.half%d", path, rank % 2);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
	IS(MPI_File_open(MPI_COMM_SELF, mine, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
			 &f[0]),
	   MPI_SUCCESS);
	IS(MPI_File_open(comm, half, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
			 MPI_INFO_NULL, &f[1]),
	   MPI_SUCCESS);
	MPI_Comm_free(&comm);
	MPI_File_write(f[0], &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
	cycle();
	int_view(f[1], 0);
	MPI_File_write_at_all(f[1], rank / 2, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
	MPI_File_write(f[0], &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
	IS(MPI_File_read_at(f[0], 0, v, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(v[0], rank);
	IS(v[1], rank);
	MPI_File_sync(f[1]);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_read_at_all(f[1], 0, v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(v[0], rank % 2);
	IS(MPI_File_close(&f[0]), MPI_SUCCESS);
	IS(MPI_File_close(&f[1]), MPI_SUCCESS);
	MPI_File_delete(mine, MPI_INFO_NULL);
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra)
{
	MPI_Aint lb;

	++*(int *)extra;
	return MPI_Type_get_extent(type, &lb, bytes);
}

/* Open MPI 4.1 can register one but not use it. */
void test_datarep(void)
{
	static int calls;
	int rc = MPI_Register_datarep("ours", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
				      extent, &calls);

	CHECK(rc == MPI_SUCCESS || rc == MPI_ERR_UNSUPPORTED_DATAREP || rc == MPI_ERR_OTHER ||
	      rc == MPI_ERR_INTERN);
	cycle();
}
