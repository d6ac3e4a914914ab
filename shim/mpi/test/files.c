// SPDX-License-Identifier: Apache-2.0
/* MPI-IO: each way to read and write, with cycles while files are open. The argument is a folder
 * for the files. */
#include "shim/mpi/test/files.h"

#include <unistd.h>

char path[512];

MPI_File fresh(int amode)
{
	MPI_File f = MPI_FILE_NULL;

	if (rank == 0)
		unlink(path);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &f), MPI_SUCCESS);
	return f;
}

void done(MPI_File f)
{
	IS(MPI_File_close(&f), MPI_SUCCESS);
	CHECK(f == MPI_FILE_NULL);
	MPI_Barrier(MPI_COMM_WORLD);
}

int value(int r, int i)
{
	return r * 10000 + i;
}

static void test_offsets(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Offset size_now;
	MPI_Status s;
	int v[N], w[N];

	for (int i = 0; i < N; i++)
		v[i] = value(rank, i);
	IS(MPI_File_write_at(f, rank * (MPI_Offset)sizeof(v), v, N, MPI_INT, &s), MPI_SUCCESS);
	IS(count_of(&s, MPI_INT), N);
	cycle();
	IS(MPI_File_write_at_all(f, (size + rank) * (MPI_Offset)sizeof(v), v, N, MPI_INT, &s),
	   MPI_SUCCESS);
	IS(MPI_File_sync(f), MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_get_size(f, &size_now), MPI_SUCCESS);
	IS(size_now, 2 * size * (long)sizeof(v));
	cycle();
	for (int i = 0; i < size; i++) {
		IS(MPI_File_read_at(f, i * (MPI_Offset)sizeof(w), w, N, MPI_INT, &s), MPI_SUCCESS);
		IS(w[N - 1], value(i, N - 1));
		IS(MPI_File_read_at_all(f, (size + i) * (MPI_Offset)sizeof(w), w, N, MPI_INT, &s),
		   MPI_SUCCESS);
		IS(w[7], value(i, 7));
	}
	done(f);
}

static void test_pointers(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Offset at = -1;
	int v[N], w[N];

	for (int i = 0; i < N; i++)
		v[i] = value(rank, i);
	MPI_File_set_view(f, rank * (MPI_Offset)sizeof(v), MPI_INT, MPI_INT, "native",
			  MPI_INFO_NULL);
	for (int i = 0; i < N; i += 10) {
		IS(MPI_File_write(f, v + i, 10, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
		if (i == 30 || i == 70)
			cycle();
		IS(MPI_File_get_position(f, &at), MPI_SUCCESS);
		IS(at, i + 10);
	}
	IS(MPI_File_seek(f, -50, MPI_SEEK_CUR), MPI_SUCCESS);
	cycle();
	IS(MPI_File_read(f, w, 10, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(w[0], value(rank, 50));
	IS(MPI_File_seek(f, 90, MPI_SEEK_SET), MPI_SUCCESS);
	IS(MPI_File_read_all(f, w, 10, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(w[9], value(rank, 99));
	done(f);
}

/* Ranks take turns, int by int. */
static MPI_Datatype turns(void)
{
	MPI_Datatype one, type;

	MPI_Type_contiguous(1, MPI_INT, &one);
	MPI_Type_create_resized(one, 0, size * (MPI_Aint)sizeof(int), &type);
	MPI_Type_commit(&type);
	MPI_Type_free(&one);
	return type;
}

static void test_views(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Datatype type = turns(), etype, filetype;
	MPI_Offset disp, where;
	char datarep[MPI_MAX_DATAREP_STRING] = "";
	MPI_Aint lb, extent;
	int v[N], w[N * 16];

	for (int i = 0; i < N; i++)
		v[i] = value(rank, i);
	IS(MPI_File_set_view(f, rank * (MPI_Offset)sizeof(int), MPI_INT, type, "native",
			     MPI_INFO_NULL),
	   MPI_SUCCESS);
	MPI_Type_free(&type);
	IS(MPI_File_write_all(f, v, N / 2, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	cycle();
	IS(MPI_File_write_all(f, v + N / 2, N / 2, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	IS(MPI_File_get_view(f, &disp, &etype, &filetype, datarep), MPI_SUCCESS);
	IS(disp, rank * (long)sizeof(int));
	CHECK(etype == MPI_INT);
	CHECK(!strcmp(datarep, "native"));
	MPI_Type_get_extent(filetype, &lb, &extent);
	IS(extent, size * (long)sizeof(int));
	MPI_Type_free(&filetype);
	IS(MPI_File_get_byte_offset(f, 10, &where), MPI_SUCCESS);
	IS(where, (10 * size + rank) * (long)sizeof(int));
	IS(MPI_File_get_type_extent(f, MPI_INT, &extent), MPI_SUCCESS);
	IS(extent, sizeof(int));
	IS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_SUCCESS);
	cycle();
	IS(MPI_File_read_at_all(f, 0, w, N * size, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
	for (int i = 0; i < N * size; i++)
		IS(w[i], value(i % size, i / size));
	done(f);
}

static void test_properties(void)
{
	int amode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, got;
	MPI_File f = fresh(amode);
	MPI_Errhandler handler;
	MPI_Group group;
	MPI_Offset bytes;
	MPI_Info info;
	int flag;

	IS(MPI_File_set_atomicity(f, 1), MPI_SUCCESS);
	IS(MPI_File_set_size(f, 1000), MPI_SUCCESS);
	MPI_File_set_errhandler(f, MPI_ERRORS_ARE_FATAL);
	MPI_Info_create(&info);
	MPI_Info_set(info, "cb_nodes", "1");
	IS(MPI_File_set_info(f, info), MPI_SUCCESS);
	MPI_Info_free(&info);
	cycle();
	IS(MPI_File_get_amode(f, &got), MPI_SUCCESS);
	IS(got, amode);
	IS(MPI_File_get_atomicity(f, &flag), MPI_SUCCESS);
	IS(flag, 1);
	IS(MPI_File_get_size(f, &bytes), MPI_SUCCESS);
	IS(bytes, 1000);
	MPI_Barrier(MPI_COMM_WORLD);
	IS(MPI_File_preallocate(f, 5000), MPI_SUCCESS);
	IS(MPI_File_get_size(f, &bytes), MPI_SUCCESS);
	IS(bytes, 5000);
	IS(MPI_File_get_group(f, &group), MPI_SUCCESS);
	MPI_Group_size(group, &got);
	IS(got, size);
	MPI_Group_free(&group);
	IS(MPI_File_get_errhandler(f, &handler), MPI_SUCCESS);
	CHECK(handler == MPI_ERRORS_ARE_FATAL);
	IS(MPI_File_get_info(f, &info), MPI_SUCCESS);
	MPI_Info_free(&info);
	done(f);
	if (rank == 0)
		CHECK(access(path, F_OK));
}

/* MPI_MODE_APPEND begins at the end of the file, but not again after a restart. */
static void test_append(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_WRONLY);
	MPI_Offset at;
	int v = rank, class = 0;

	MPI_File_write_at(f, rank * (MPI_Offset)sizeof(v), &v, 1, MPI_INT, MPI_STATUS_IGNORE);
	done(f);
	IS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL,
			 &f),
	   MPI_SUCCESS);
	MPI_File_get_position(f, &at);
	IS(at, size * (long)sizeof(v));
	IS(MPI_File_seek(f, 4, MPI_SEEK_SET), MPI_SUCCESS);
	cycle();
	MPI_File_get_position(f, &at);
	IS(at, 4);
	CHECK(MPI_File_read(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS);
	done(f);
	if (rank == 0)
		IS(MPI_File_delete(path, MPI_INFO_NULL), MPI_SUCCESS);
	MPI_Error_class(MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY,
				      MPI_INFO_NULL, &f),
			&class);
	IS(class, MPI_ERR_NO_SUCH_FILE);
}

/* A restart could not open it again, so a checkpoint is refused until it is closed. */
static void test_nameless(void)
{
	MPI_File f = fresh(MPI_MODE_CREATE | MPI_MODE_RDWR);

	cycle();
	MPI_Barrier(MPI_COMM_WORLD); /* another rank may still be in the cycle */
	if (rank == 0)
		IS(unlink(path), 0);
	MPI_Barrier(MPI_COMM_WORLD);
	no_cycle();
	done(f);
	cycle();
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	begin();
	snprintf(path, sizeof(path), "%s/file", argc > 1 ? argv[1] : ".");
	family("explicit offsets", test_offsets);
	family("file pointers", test_pointers);
	family("views", test_views);
	family("properties", test_properties);
	family("append, delete, errors", test_append);
	family("shared file pointer", test_shared);
	family("ordered access", test_ordered);
	family("a sequential file", test_sequential);
	family("access with requests", test_requests);
	family("split collectives", test_split);
	family("files of one rank and of some ranks", test_some_ranks);
	family("data representations", test_datarep);
	family("a file without a name", test_nameless);
	return end();
}
