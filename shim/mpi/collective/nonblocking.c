/* SPDX-License-Identifier: Apache-2.0
 * Non-blocking collectives: their arguments, kept as long as the request; how they are started, and
 * finished in a quiesce. */
#include "config.h"

#include "shim/mpi/collective/issue.h"
#include "shim/mpi/collective/nonblocking.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/handles/op.h"
#include "shim/mpi/handles/wrap.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/types/datatype.h"
#include "shim/mpi/types/info.h"

#define PIECE_BYTES (1l << 29) /* most bytes of input in one piece */

enum retained_kind { RETAINED_ARRAY, RETAINED_TYPE, RETAINED_OP, RETAINED_INFO, RETAINED_INPUT };

struct gck_mpi_retained {
	struct gck_mpi_retained *next;
	enum retained_kind kind;
	union {
		MPI_Datatype type; /* also the type of an input, referenced by another entry */
		MPI_Op op;
		MPI_Info info;
	};
	void *buf;
	long count;   /* elements of the array or input */
	size_t bytes; /* size of data */
	_Alignas(16) char data[];
};

void *gck_mpi_nonblocking_new(size_t size, MPI_Comm comm,
			      int (*issue)(struct gck_mpi_nonblocking *n, MPI_Request *real))
{
	struct gck_mpi_nonblocking *n = calloc(1, size);

	if (!n)
		return NULL;
	n->comm = comm;
	n->clock = &gck_mpi_comm_of(comm)->clock;
	n->issue = issue;
	return n;
}

static struct gck_mpi_retained *retain(struct gck_mpi_nonblocking *n, enum retained_kind kind,
				       size_t bytes)
{
	struct gck_mpi_retained *k = calloc(1, sizeof *k + bytes);

	if (!k) {
		n->failed = true;
		return NULL;
	}
	k->kind = kind;
	k->bytes = bytes;
	k->next = n->retained;
	n->retained = k;
	return k;
}

void *gck_mpi_retain(struct gck_mpi_nonblocking *n, const void *array, long length, size_t size)
{
	struct gck_mpi_retained *k;

	if (!array || length < 0)
		return NULL;
	k = retain(n, RETAINED_ARRAY, (size_t)length * size);
	if (!k)
		return NULL;
	k->count = length;
	return memcpy(k->data, array, k->bytes);
}

MPI_Datatype gck_mpi_retain_type(struct gck_mpi_nonblocking *n, MPI_Datatype type)
{
	struct gck_mpi_retained *k =
		gck_mpi_is(type, GCK_MPI_DATATYPE) ? retain(n, RETAINED_TYPE, 0) : NULL;

	if (k) {
		k->type = type;
		gck_mpi_type_ref(type);
	}
	return type;
}

MPI_Op gck_mpi_retain_op(struct gck_mpi_nonblocking *n, MPI_Op op)
{
	struct gck_mpi_retained *k = gck_mpi_is(op, GCK_MPI_OP) ? retain(n, RETAINED_OP, 0) : NULL;

	if (k) {
		k->op = op;
		gck_mpi_op_ref(op);
	}
	return op;
}

MPI_Info gck_mpi_retain_info(struct gck_mpi_nonblocking *n, MPI_Info info)
{
	struct gck_mpi_retained *k;
	MPI_Info copy;

	if (!gck_mpi_is(info, GCK_MPI_INFO) || info == MPI_INFO_NULL)
		return info;
	k = retain(n, RETAINED_INFO, 0);
	if (k && !gck_mpi_real.Info_dup(GCK_MPI_REAL_INFO(info), &copy))
		k->info = gck_mpi_info_of_real(copy);
	n->failed |= k && !k->info;
	return k ? k->info : NULL;
}

MPI_Datatype *gck_mpi_retain_types(struct gck_mpi_nonblocking *n, const MPI_Datatype *types,
				   long length)
{
	MPI_Datatype *copy = gck_mpi_retain(n, types, length, sizeof *copy);

	for (long i = 0; copy && i < length; i++)
		gck_mpi_retain_type(n, copy[i]);
	return copy;
}

/* Open MPI 4.1's MPI_Ialltoallw on a communicator with a topology reads as many types as there are
 * neighbours, even if that is more than the ranks; it ignores NULL entries. */
MPI_Datatype *gck_mpi_retain_reals(struct gck_mpi_nonblocking *n, const MPI_Datatype *types)
{
	const struct gck_mpi_retained *list =
		types ? (const void *)((const char *)types -
				       offsetof(struct gck_mpi_retained, data))
		      : NULL;
	long neighbours = gck_mpi_indegree(n->comm) + gck_mpi_outdegree(n->comm);
	struct gck_mpi_retained *k;
	MPI_Datatype *reals;

	if (!list)
		return NULL;
	k = retain(n, RETAINED_ARRAY, (size_t)(list->count + neighbours) * sizeof *reals);
	if (!k)
		return NULL;
	reals = (void *)k->data;
	for (long i = 0; i < list->count; i++)
		reals[i] = GCK_MPI_REAL_TYPE(types[i]);
	return reals;
}

static void retain_piece(struct gck_mpi_nonblocking *n, void *buf, long count, MPI_Datatype type)
{
	struct gck_mpi_retained *k;
	int size = 0;

	if (gck_mpi_real.Pack_size(count, GCK_MPI_REAL_TYPE(type), GCK_MPI_REAL_COMM(MPI_COMM_SELF),
				   &size))
		return; /* an invalid argument, which the collective itself reports */
	k = retain(n, RETAINED_INPUT, size);
	if (!k)
		return;
	k->buf = buf;
	k->count = count;
	k->type = type;
}

/* In pieces, because MPI_Pack counts bytes in an int. */
void gck_mpi_retain_input(struct gck_mpi_nonblocking *n, void *buf, long count, MPI_Datatype type)
{
	MPI_Aint lb, extent = 0;
	int size = 0;
	long per_piece;

	if (count <= 0 || gck_mpi_real.Type_size(GCK_MPI_REAL_TYPE(type), &size) ||
	    gck_mpi_real.Type_get_extent(GCK_MPI_REAL_TYPE(type), &lb, &extent))
		return;
	per_piece = size > 0 && PIECE_BYTES / size > 0 ? PIECE_BYTES / size : 1;
	for (long at = 0; at < count; at += per_piece)
		retain_piece(n, (char *)buf + at * extent,
			     count - at < per_piece ? count - at : per_piece, type);
}

int gck_mpi_inputs_take(struct gck_mpi_nonblocking *n)
{
	int rc = MPI_SUCCESS;

	for (struct gck_mpi_retained *k = n->retained; !rc && k; k = k->next) {
		int position = 0;

		if (k->kind == RETAINED_INPUT)
			rc = gck_mpi_real.Pack(k->buf, k->count, GCK_MPI_REAL_TYPE(k->type),
					       k->data, k->bytes, &position,
					       GCK_MPI_REAL_COMM(MPI_COMM_SELF));
	}
	return rc;
}

int gck_mpi_inputs_put_back(struct gck_mpi_nonblocking *n)
{
	int rc = MPI_SUCCESS;

	for (struct gck_mpi_retained *k = n->retained; !rc && k; k = k->next) {
		int position = 0;

		if (k->kind == RETAINED_INPUT)
			rc = gck_mpi_real.Unpack(k->data, k->bytes, &position, k->buf, k->count,
						 GCK_MPI_REAL_TYPE(k->type),
						 GCK_MPI_REAL_COMM(MPI_COMM_SELF));
	}
	return rc;
}

static void free_info(MPI_Info info)
{
	MPI_Info real = GCK_MPI_REAL_INFO(info);

	gck_mpi_real.Info_free(&real);
	gck_mpi_handle_free((void *)info);
}

void gck_mpi_nonblocking_free(struct gck_mpi_nonblocking *n)
{
	while (n->retained) {
		struct gck_mpi_retained *k = n->retained;

		n->retained = k->next;
		if (k->kind == RETAINED_TYPE)
			gck_mpi_type_unref(k->type);
		else if (k->kind == RETAINED_OP)
			gck_mpi_op_unref(k->op);
		else if (k->kind == RETAINED_INFO && k->info)
			free_info(k->info);
		free(k);
	}
	free(n);
}

void gck_mpi_nonblocking_completed(struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;

	gck_mpi_clock_saw(n->clock, n->number);
	if (n->completed)
		n->completed(n);
}

int gck_mpi_nonblocking_begin(struct gck_mpi_nonblocking *n, MPI_Request *request)
{
	struct gck_mpi_clock *clock;
	int rc;

	if (!n)
		return MPI_ERR_NO_MEM;
	if (!request || n->failed) {
		gck_mpi_nonblocking_free(n);
		return request ? MPI_ERR_NO_MEM : MPI_ERR_REQUEST;
	}
	rc = gck_mpi_inputs_take(n);
	if (rc) {
		gck_mpi_nonblocking_free(n);
		return rc;
	}
	clock = n->clock;
	n->number = gck_mpi_clock_start(clock);
	rc = gck_mpi_nonblocking_issue(n, request);
	if (rc)
		gck_mpi_clock_unstart(clock);
	return rc;
}

/* ---- the quiesce ---------------------------------------------------------------------------- */

static bool is_active(const struct gck_mpi_request *r)
{
	return r->what == GCK_MPI_REQUEST_CLASS && r->state == GCK_MPI_REQUEST_ACTIVE &&
	       r->class->completed == gck_mpi_nonblocking_completed;
}

static bool to_finish(const struct gck_mpi_request *r)
{
	const struct gck_mpi_nonblocking *n = r->arg;

	return is_active(r) && n->number <= n->clock->finish;
}

struct counts {
	size_t active, open;
};

static void count(struct gck_mpi_request *r, void *counts)
{
	struct counts *c = counts;

	c->active += is_active(r);
	c->open += to_finish(r);
}

size_t gck_mpi_nonblocking_open(size_t *active)
{
	struct counts c = { 0 };

	gck_mpi_request_each(count, &c);
	if (active)
		*active = c.active;
	return c.open;
}

static void poll_to_finish(struct gck_mpi_request *r, void *unused)
{
	(void)unused;
	if (to_finish(r))
		gck_mpi_request_poll(r);
}

int gck_mpi_nonblocking_step(struct gck_error *err)
{
	(void)err;
	gck_mpi_request_each(poll_to_finish, NULL);
	return 0;
}
