/* SPDX-License-Identifier: Apache-2.0
 * Chapter 13, I/O. */
#include "test/mpi/chapters/chapters.h"

enum { WORDS = 20 };

static MPI_File open_new(void)
{
	MPI_File f = MPI_FILE_NULL;

	int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;

	MPI_File_open(MPI_COMM_WORLD, scratch("file"), mode, MPI_INFO_NULL, &f);
	return f;
}

/* What all ranks have written is in the file. */
static void sync_all(MPI_File f)
{
	MPI_File_sync(f);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(f);
}

static void put_offsets(MPI_File f)
{
	MPI_Offset bytes, at;
	int mode;

	sync_all(f);
	MPI_File_get_size(f, &bytes);
	MPI_File_get_position(f, &at);
	MPI_File_get_amode(f, &mode);
	put(" size %ld at %ld mode %d", (long)bytes, (long)at, mode);
}

static void explicit_offsets(void)
{
	MPI_File f = open_new();
	int v[WORDS], in[WORDS], n;
	MPI_Status s;
	MPI_Request r;

	for (int i = 0; i < WORDS; i++)
		v[i] = rank * 100 + i;
	MPI_File_write_at_all(f, rank * (MPI_Offset)sizeof(v), v, WORDS, MPI_INT, &s);
	pending();
	sync_all(f);
	MPI_File_iread_at(f, right * (MPI_Offset)sizeof(v), in, WORDS, MPI_INT, &r);
	pending();
	MPI_Wait(&r, &s);
	MPI_Get_count(&s, MPI_INT, &n);
	put(" %d", n);
	put_ints(WORDS, in);
	put_offsets(f);
	MPI_File_close(&f);
	put(" %d", f == MPI_FILE_NULL);
}

/* Each rank sees every size-th word. */
static void views(void)
{
	MPI_File f = open_new();
	MPI_Datatype word, t;
	int v[WORDS], in[WORDS];
	char rep[MPI_MAX_DATAREP_STRING];
	MPI_Offset at;

	MPI_Type_create_resized(MPI_INT, 0, size * (MPI_Aint)sizeof(int), &word);
	MPI_Type_commit(&word);
	MPI_File_set_view(f, rank * (MPI_Offset)sizeof(int), MPI_INT, word, "native",
			  MPI_INFO_NULL);
	MPI_Type_free(&word);
	for (int i = 0; i < WORDS; i++)
		v[i] = rank * 100 + i;
	pending();
	MPI_File_write_all(f, v, WORDS, MPI_INT, MPI_STATUS_IGNORE);
	put_offsets(f);
	MPI_File_get_byte_offset(f, 3, &at);
	put(" %ld", (long)at);
	MPI_File_get_view(f, &at, &t, &word, rep);
	put(" %ld %s", (long)at, rep);
	MPI_Type_free(&word);
	MPI_File_seek(f, -4, MPI_SEEK_CUR);
	MPI_File_read(f, in, 4, MPI_INT, MPI_STATUS_IGNORE);
	put_ints(4, in);
	MPI_File_close(&f);
}

static void shared_pointer(void)
{
	MPI_File f = open_new();
	int v = rank + 20, in[64];
	MPI_Offset at;

	MPI_File_write_ordered(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE);
	pending();
	sync_all(f);
	MPI_File_get_position_shared(f, &at);
	put(" %ld", (long)at);
	sync_all(f);
	MPI_File_read_at_all_begin(f, 0, in, size, MPI_INT);
	pending();
	MPI_File_read_at_all_end(f, in, MPI_STATUS_IGNORE);
	put_ints(size, in);
	MPI_File_close(&f);
}

static void sizes(void)
{
	MPI_File f = open_new();
	MPI_Group g;
	int n;

	MPI_File_set_size(f, 1000);
	put_offsets(f);
	sync_all(f);
	MPI_File_preallocate(f, 2000);
	pending();
	put_offsets(f);
	MPI_File_get_group(f, &g);
	MPI_Group_size(g, &n);
	put(" %d", n);
	MPI_Group_free(&g);
	MPI_File_close(&f);
}

static void errors(void)
{
	MPI_File f;

	put_class(MPI_File_open(MPI_COMM_SELF, scratch("no/file"), MPI_MODE_RDONLY, MPI_INFO_NULL,
				&f));
	put_class(MPI_File_delete(scratch("nothing"), MPI_INFO_NULL));
	put_class(MPI_File_open(MPI_COMM_SELF, scratch("x"), MPI_MODE_RDONLY | MPI_MODE_RDWR,
				MPI_INFO_NULL, &f));
}

const struct claim files[] = {
	{"explicit offsets, blocking and not", explicit_offsets},
	{"views and individual pointers", views},
	{"the shared pointer; split collectives", shared_pointer},
	{"sizes and groups", sizes},
	{"wrong names and modes", errors},
	{NULL, NULL},
};
