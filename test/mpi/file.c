/* SPDX-License-Identifier: Apache-2.0
 * MPI-IO. Each rank knows the contents of all files, in words. A file has a view that is the same
 * for all ranks (flat) or gives each rank every n-th block (striped). Pointers stay where they are
 * between steps. */
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 8192, FILES = 2, MOST = 96 };

struct tr_file {
	struct tr_file *next;
	MPI_Comm comm; /* MPI_COMM_NULL: this rank has not opened it */
	MPI_File fh;
	int n, rank;
	int stripe;     /* words in a block of the striped view; 0: flat */
	int at;         /* this rank's pointer, in words of its view */
	int shared;     /* the shared pointer */
	int end;        /* everything written so far is before this word of the file */
	int32_t model[WORDS];
};

/* The place of word k of a rank's view in the file; the number of words that a rank sees. */
static int place(const struct tr_file *f, int rank, int k)
{
	return f->stripe ? (k / f->stripe * f->n + rank) * f->stripe + k % f->stripe : k;
}

static int visible(const struct tr_file *f)
{
	return f->stripe ? WORDS / (f->stripe * f->n) * f->stripe : WORDS;
}

/* Where in the view each rank may write n words (flat: one rank after another): anywhere, but in a
 * program that may be restarted only behind everything written so far. */
static int draw_base(struct tr_run *r, const struct tr_file *f, int n)
{
	int all = n * (f->stripe ? 1 : f->n), low = 0, left;

	if (r->opt->restarts)
		low = f->stripe ? (f->end + f->stripe * f->n - 1) / (f->stripe * f->n) * f->stripe
				: f->end;
	left = visible(f) - all - low;
	return low + tr_below(&r->plan, (r->opt->restarts && left > MOST ? MOST : left) + 1);
}

static int32_t word(uint64_t key, int k)
{
	return (int32_t)tr_mix(key, (uint64_t)k);
}

/* Waits until all ranks have written, so that all may read. */
static void settle(struct tr_file *f)
{
	MPI_File_sync(f->fh);
	MPI_Barrier(f->comm);
	MPI_File_sync(f->fh);
}

/* ---- reading and writing, in each way */

enum way { AT, AT_ALL, I_AT, I_AT_ALL, SPLIT_AT, POINTER, POINTER_ALL, I_POINTER, I_POINTER_ALL,
	SPLIT_POINTER, WAYS };

static void move(struct tr_run *r, struct tr_file *f, enum way way, bool write, int at,
		 int32_t *data, int n)
{
	MPI_File fh = f->fh;
	MPI_Request req = MPI_REQUEST_NULL;
	MPI_Datatype t = MPI_INT32_T;
	MPI_Offset now;
	MPI_Status st;
	int count;

	if (way >= POINTER && f->at != at)
		MPI_File_seek(fh, at, MPI_SEEK_SET);
	switch (way) {
	case AT:
		(write ? MPI_File_write_at(fh, at, data, n, t, &st)
		       : MPI_File_read_at(fh, at, data, n, t, &st));
		break;
	case AT_ALL:
		(write ? MPI_File_write_at_all(fh, at, data, n, t, &st)
		       : MPI_File_read_at_all(fh, at, data, n, t, &st));
		break;
	case I_AT:
		(write ? MPI_File_iwrite_at(fh, at, data, n, t, &req)
		       : MPI_File_iread_at(fh, at, data, n, t, &req));
		break;
	case I_AT_ALL:
		(write ? MPI_File_iwrite_at_all(fh, at, data, n, t, &req)
		       : MPI_File_iread_at_all(fh, at, data, n, t, &req));
		break;
	case SPLIT_AT:
		if (write) {
			MPI_File_write_at_all_begin(fh, at, data, n, t);
			MPI_File_write_at_all_end(fh, data, &st);
		} else {
			MPI_File_read_at_all_begin(fh, at, data, n, t);
			MPI_File_read_at_all_end(fh, data, &st);
		}
		break;
	case POINTER:
		(write ? MPI_File_write(fh, data, n, t, &st) : MPI_File_read(fh, data, n, t, &st));
		break;
	case POINTER_ALL:
		(write ? MPI_File_write_all(fh, data, n, t, &st)
		       : MPI_File_read_all(fh, data, n, t, &st));
		break;
	case I_POINTER:
		(write ? MPI_File_iwrite(fh, data, n, t, &req)
		       : MPI_File_iread(fh, data, n, t, &req));
		break;
	case I_POINTER_ALL:
		(write ? MPI_File_iwrite_all(fh, data, n, t, &req)
		       : MPI_File_iread_all(fh, data, n, t, &req));
		break;
	default:
		if (write) {
			MPI_File_write_all_begin(fh, data, n, t);
			MPI_File_write_all_end(fh, data, &st);
		} else {
			MPI_File_read_all_begin(fh, data, n, t);
			MPI_File_read_all_end(fh, data, &st);
		}
	}
	if (req != MPI_REQUEST_NULL)
		MPI_Wait(&req, &st);
	MPI_Get_count(&st, t, &count);
	tr_equal(r, write ? "words written to a file" : "words read from a file", count, n);
	if (way < POINTER)
		return;
	f->at = at + n;
	MPI_File_get_position(fh, &now);
	tr_equal(r, "File_get_position", now, f->at);
}

static void check_read(struct tr_run *r, const struct tr_file *f, int at, const int32_t *got, int n)
{
	for (int k = 0; k < n; k++) {
		int32_t want = f->model[place(f, f->rank, at + k)];

		tr_need(r, got[k] == want, "word %d of a file's view is %x, expected %x", at + k,
			got[k], want);
	}
	tr_digest(r, got, (size_t)n * sizeof(*got));
}

/* Notes that the rank's word k of this step is the file's word `at`. */
static void write_model(struct tr_run *r, struct tr_file *f, int at, int rank, int k)
{
	f->model[at] = word(tr_key(r, rank, 0), k);
	if (f->end <= at)
		f->end = at + 1;
}

/* True if n words from word `at` of this rank's view may be read. Behind everything written so far,
 * a restarted program may find words that it writes only later. */
static bool readable(const struct tr_run *r, const struct tr_file *f, int at, int n)
{
	return at + n <= visible(f) &&
	       (!r->opt->restarts || place(f, f->rank, at + n - 1) < f->end);
}

/* Each rank writes its piece, then reads a piece of some rank. */
static void write_read(struct tr_run *r, struct tr_file *f)
{
	enum way write = tr_below(&r->plan, WAYS), read = tr_below(&r->plan, WAYS);
	int n = tr_between(&r->plan, 1, MOST), base = draw_base(r, f, n),
	    by = tr_below(&r->plan, f->n);
	bool go_on = tr_chance(&r->plan, 40);
	int32_t data[MOST];

	for (int rank = 0; rank < f->n; rank++)
		for (int k = 0; k < n; k++)
			write_model(r, f, place(f, rank, base + k + (f->stripe ? 0 : rank * n)),
				    rank, k);
	if (f->comm == MPI_COMM_NULL)
		return;
	for (int k = 0; k < n; k++)
		data[k] = word(tr_key(r, f->rank, 0), k);
	move(r, f, write, true, base + (f->stripe ? 0 : f->rank * n), data, n);
	settle(f);
	int at = base + (f->stripe ? 0 : (f->rank + by) % f->n * n);

	/* from the present place of the pointer */
	if (go_on && readable(r, f, f->at, n))
		at = f->at;
	move(r, f, read, false, at, data, n);
	check_read(r, f, at, data, n);
	MPI_Barrier(f->comm);
}

/* In the order of the ranks, at the shared pointer. */
static void ordered(struct tr_run *r, struct tr_file *f)
{
	int n = tr_between(&r->plan, 1, MOST), low = r->opt->restarts ? f->end : 0;
	int32_t data[MOST];
	MPI_Offset now;
	MPI_Status st;
	bool seek = f->shared < low || f->shared + n * f->n > WORDS;

	if (f->stripe)
		return;
	int at = f->shared = seek ? low : f->shared;

	f->shared += n * f->n;
	for (int rank = 0; rank < f->n; rank++)
		for (int k = 0; k < n; k++)
			write_model(r, f, at + rank * n + k, rank, k);
	if (f->comm == MPI_COMM_NULL)
		return;
	for (int k = 0; k < n; k++)
		data[k] = word(tr_key(r, f->rank, 0), k);
	if (seek)
		MPI_File_seek_shared(f->fh, at, MPI_SEEK_SET);
	MPI_File_write_ordered(f->fh, data, n, MPI_INT32_T, &st);
	settle(f);
	MPI_File_seek_shared(f->fh, at, MPI_SEEK_SET);
	MPI_File_read_ordered(f->fh, data, n, MPI_INT32_T, &st);
	check_read(r, f, at + f->rank * n, data, n);
	MPI_Barrier(f->comm);
	MPI_File_get_position_shared(f->fh, &now);
	tr_equal(r, "File_get_position_shared", now, f->shared);
	MPI_File_read_at(f->fh, at + f->rank * n, data, n, MPI_INT32_T, &st);
	check_read(r, f, at + f->rank * n, data, n);
	MPI_Barrier(f->comm);
}

/* ---- views */

static void set_view(struct tr_run *r, struct tr_file *f)
{
	MPI_Datatype block, type = MPI_INT32_T, etype, got;
	MPI_Offset disp, byte;
	char name[MPI_MAX_DATAREP_STRING];

	f->stripe = tr_chance(&r->plan, 60) ? tr_between(&r->plan, 1, 16) : 0;
	f->at = f->shared = 0;
	if (f->comm == MPI_COMM_NULL)
		return;
	if (f->stripe) {
		MPI_Type_contiguous(f->stripe, MPI_INT32_T, &block);
		MPI_Type_create_resized(block, 0, (MPI_Aint)f->stripe * f->n * 4, &type);
		MPI_Type_commit(&type);
		MPI_Type_free(&block);
	}
	MPI_File_set_view(f->fh, (MPI_Offset)f->rank * f->stripe * 4, MPI_INT32_T, type, "native",
		MPI_INFO_NULL);
	if (f->stripe)
		MPI_Type_free(&type);
	MPI_File_get_view(f->fh, &disp, &etype, &got, name);
	tr_equal(r, "displacement of a view", disp, (MPI_Offset)f->rank * f->stripe * 4);
	tr_need(r, !strcmp(name, "native"), "a view's representation is %s", name);
	if (f->stripe) {
		MPI_Type_free(&got);
		MPI_File_get_byte_offset(f->fh, f->stripe, &byte);
		tr_equal(r, "File_get_byte_offset", byte, place(f, f->rank, f->stripe) * 4);
	}
}

/* ---- opening and closing files */

static void file_new(struct tr_run *r)
{
	const struct tr_comm *c = tr_comm_draw_intra(r);
	struct tr_file *f = calloc(1, sizeof(*f));
	MPI_Offset size;
	char name[300];

	if (!f)
		abort();
	f->n = c->g[0].n;
	f->rank = c->rank;
	f->comm = MPI_COMM_NULL;
	f->next = r->files;
	r->files = f;
	if (c->rank < 0)
		return;
	/* not a duplicate: Open MPI 4.1's OMPIO may crash if a grid's ranks open a file */
	MPI_Comm_split(c->comm, 0, c->rank, &f->comm);
	snprintf(name, sizeof(name), "%s/traffic.%llx.%d.%d", r->opt->scratch,
		 (unsigned long long)r->seed, r->step, c->g[0].world[0]);
	int rc = MPI_File_open(f->comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR |
		(r->opt->restarts ? 0 : MPI_MODE_DELETE_ON_CLOSE), MPI_INFO_NULL, &f->fh);

	tr_need(r, rc == MPI_SUCCESS, "%s cannot be opened: code %d", name, rc);
	MPI_File_set_errhandler(f->fh, MPI_ERRORS_ARE_FATAL);
	MPI_File_set_view(f->fh, 0, MPI_INT32_T, MPI_INT32_T, "native", MPI_INFO_NULL);
	MPI_File_set_size(f->fh, WORDS * 4);
	MPI_File_get_size(f->fh, &size);
	tr_equal(r, "File_get_size", size, WORDS * 4);
}

static void file_free(struct tr_file **link)
{
	struct tr_file *f = *link;

	if (f->comm != MPI_COMM_NULL) {
		MPI_File_close(&f->fh);
		MPI_Comm_free(&f->comm);
	}
	*link = f->next;
	free(f);
}

void tr_file_end(struct tr_run *r)
{
	while (r->files)
		file_free(&r->files);
}

/* True if the file has no space for another step of all ranks (only with --restarts). */
static bool full(const struct tr_run *r, const struct tr_file *f)
{
	return r->opt->restarts && f->end + 2 * MOST * f->n > WORDS;
}

void tr_file_step(struct tr_run *r)
{
	struct tr_file **link = &r->files, *f;
	int n = 0, k;

	for (f = r->files; f; f = f->next)
		n++;
	if (n < FILES && (!n || tr_chance(&r->plan, 20))) {
		file_new(r);
		return;
	}
	for (k = tr_below(&r->plan, n); k; k--)
		link = &(*link)->next;
	k = tr_below(&r->plan, 16);
	if (k == 0 || full(r, *link))
		file_free(link);
	else if (k < 3)
		set_view(r, *link);
	else if (k < 6)
		ordered(r, *link);
	else
		write_read(r, *link);
}
