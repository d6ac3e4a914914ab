/* SPDX-License-Identifier: Apache-2.0
 * Collectives that move data, blocking and non-blocking, in intra- and intercommunicators. Rank i's
 * data for rank k (of its peers: in an intercommunicator, the other group) has a key of its own. */
#include "traffic.h"

#include <stdlib.h>

struct coll {
	struct tr_run *r;
	struct tr_comm *c;
	const struct tr_type *t;
	int count;                /* of each block, or the base of the counts of the -v forms */
	int root_side, root;
	bool nb, in_place;
	struct tr_transfer *x;
};

#define CALL(co, blocking, nonblocking, ...) \
	((co)->nb ? nonblocking(__VA_ARGS__, &(co)->x->req) : blocking(__VA_ARGS__))

static int mine(const struct coll *co)
{
	return co->c->rank;
}

static int npeers(const struct coll *co)
{
	return tr_peers(co->c, co->c->side)->n;
}

/* True if this rank is the root; sets the root argument. */
static bool is_root(const struct coll *co)
{
	return co->c->side == co->root_side && co->c->rank == co->root;
}

static int root_argument(const struct coll *co)
{
	if (!co->c->inter || co->c->side != co->root_side)
		return co->root;
	return is_root(co) ? MPI_ROOT : MPI_PROC_NULL;
}

/* True if this rank exchanges data with the root; in an intracommunicator the root itself does. */
static bool with_root(const struct coll *co)
{
	return !co->c->inter || co->c->side != co->root_side;
}

/* The key of the data from rank `from` of a side to rank `to` of its peers; -1: to all. */
static uint64_t key(const struct coll *co, int side, int from, int to)
{
	return tr_mix(tr_key(co->r, side, from), (uint64_t)to + 7);
}

static int peer_side(const struct coll *co)
{
	return co->c->inter ? !co->c->side : 0;
}

static void fill(const struct coll *co, struct tr_buffer *b, int first, int n, uint64_t k)
{
	tr_buffer_fill(b, co->t, first, n, k);
}

/* Arrays of counts and displacements with a hole after each block; the transfer frees them. */
static int counts(const struct coll *co, int slot, int n, const int *lengths, int **count,
		  int **displ)
{
	int end = 0;

	*count = co->x->keep[slot] = malloc((size_t)n * sizeof(int));
	*displ = co->x->keep[slot + 1] = malloc((size_t)n * sizeof(int));
	if (!*count || !*displ)
		abort();
	for (int i = 0; i < n; i++) {
		(*count)[i] = lengths[i];
		(*displ)[i] = end;
		end += lengths[i] + 1;
	}
	return end;
}

/* Lengths of the -v forms, which all ranks compute without a draw. */
static int length(const struct coll *co, int from, int to)
{
	return co->count * ((from + 2 * to + co->r->step) % 3) / 2;
}

static void bcast(struct coll *co)
{
	struct tr_transfer *x = co->x;
	uint64_t k = key(co, co->root_side, co->root, -1);
	bool has = is_root(co) || with_root(co);

	x->recv = tr_buffer_new(co->t, co->count);
	x->want = tr_buffer_new(co->t, co->count);
	if (has)
		fill(co, x->want, 0, co->count, k);
	if (is_root(co))
		fill(co, x->recv, 0, co->count, k);
	CALL(co, MPI_Bcast, MPI_Ibcast, x->recv->at, co->count, co->t->type, root_argument(co),
	     co->c->comm);
}

static void barrier(struct coll *co)
{
	CALL(co, MPI_Barrier, MPI_Ibarrier, co->c->comm);
}

/* The expected block of peer i in the result, at element `at`. */
static void expect(struct coll *co, int i, int at, int n, int to)
{
	fill(co, co->x->want, at, n, key(co, peer_side(co), i, to));
}

static void gather(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), count = co->count;
	bool in_place = co->in_place && !co->c->inter && is_root(co);

	x->send = tr_buffer_new(co->t, count);
	x->recv = tr_buffer_new(co->t, count * n);
	x->want = tr_buffer_new(co->t, count * n);
	fill(co, x->send, 0, count, key(co, co->c->side, mine(co), -1));
	for (int i = 0; i < n && is_root(co); i++)
		expect(co, i, i * count, count, -1);
	if (in_place)
		fill(co, x->recv, mine(co) * count, count, key(co, co->c->side, mine(co), -1));
	CALL(co, MPI_Gather, MPI_Igather, in_place ? MPI_IN_PLACE : x->send->at, count, co->t->type,
		x->recv->at, count, co->t->type, root_argument(co), co->c->comm);
}

static void gatherv(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), lengths[TR_RANKS] = {0}, *count, *displ, own = length(co, mine(co), 0);

	for (int i = 0; i < n; i++)
		lengths[i] = length(co, i, 0);
	x->send = tr_buffer_new(co->t, own);
	fill(co, x->send, 0, own, key(co, co->c->side, mine(co), -1));
	int end = counts(co, 0, n, lengths, &count, &displ);

	x->recv = tr_buffer_new(co->t, end);
	x->want = tr_buffer_new(co->t, end);
	for (int i = 0; i < n && is_root(co); i++)
		expect(co, i, displ[i], count[i], -1);
	CALL(co, MPI_Gatherv, MPI_Igatherv, x->send->at, own, co->t->type, x->recv->at, count,
	     displ, co->t->type, root_argument(co), co->c->comm);
}

static void scatter(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), count = co->count;
	bool in_place = co->in_place && !co->c->inter && is_root(co);

	x->send = tr_buffer_new(co->t, count * n);
	x->recv = tr_buffer_new(co->t, count);
	x->want = tr_buffer_new(co->t, count);
	for (int i = 0; i < n && is_root(co); i++)
		fill(co, x->send, i * count, count, key(co, co->c->side, mine(co), i));
	if (with_root(co) && !in_place)
		fill(co, x->want, 0, count, key(co, co->root_side, co->root, mine(co)));
	CALL(co, MPI_Scatter, MPI_Iscatter, x->send->at, count, co->t->type,
	     in_place ? MPI_IN_PLACE : x->recv->at, count, co->t->type, root_argument(co),
	     co->c->comm);
}

static void scatterv(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), lengths[TR_RANKS] = {0}, *count, *displ;
	int own = with_root(co) ? length(co, co->root, mine(co)) : 0;

	for (int i = 0; i < n; i++)
		lengths[i] = length(co, co->root, i);
	int end = counts(co, 0, n, lengths, &count, &displ);

	x->send = tr_buffer_new(co->t, end);
	x->recv = tr_buffer_new(co->t, own);
	x->want = tr_buffer_new(co->t, own);
	for (int i = 0; i < n && is_root(co); i++)
		fill(co, x->send, displ[i], count[i], key(co, co->c->side, mine(co), i));
	fill(co, x->want, 0, own, key(co, co->root_side, co->root, mine(co)));
	CALL(co, MPI_Scatterv, MPI_Iscatterv, x->send->at, count, displ, co->t->type, x->recv->at,
	     own, co->t->type, root_argument(co), co->c->comm);
}

static void allgather(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), count = co->count;
	bool in_place = co->in_place && !co->c->inter;
	uint64_t own = key(co, co->c->side, mine(co), -1);

	x->send = tr_buffer_new(co->t, count);
	x->recv = tr_buffer_new(co->t, count * n);
	x->want = tr_buffer_new(co->t, count * n);
	fill(co, x->send, 0, count, own);
	if (in_place)
		fill(co, x->recv, mine(co) * count, count, own);
	for (int i = 0; i < n; i++)
		expect(co, i, i * count, count, -1);
	CALL(co, MPI_Allgather, MPI_Iallgather, in_place ? MPI_IN_PLACE : x->send->at, count,
	     co->t->type, x->recv->at, count, co->t->type, co->c->comm);
}

static void allgatherv(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), lengths[TR_RANKS] = {0}, *count, *displ, own = length(co, mine(co), 0);

	for (int i = 0; i < n; i++)
		lengths[i] = length(co, i, 0);
	int end = counts(co, 0, n, lengths, &count, &displ);

	x->send = tr_buffer_new(co->t, own);
	x->recv = tr_buffer_new(co->t, end);
	x->want = tr_buffer_new(co->t, end);
	fill(co, x->send, 0, own, key(co, co->c->side, mine(co), -1));
	for (int i = 0; i < n; i++)
		expect(co, i, displ[i], count[i], -1);
	CALL(co, MPI_Allgatherv, MPI_Iallgatherv, x->send->at, own, co->t->type, x->recv->at, count,
	     displ, co->t->type, co->c->comm);
}

static void alltoall(struct coll *co)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), count = co->count;
	bool in_place = co->in_place && !co->c->inter && !co->nb;

	x->send = tr_buffer_new(co->t, count * n);
	x->recv = tr_buffer_new(co->t, count * n);
	x->want = tr_buffer_new(co->t, count * n);
	for (int i = 0; i < n; i++) {
		fill(co, in_place ? x->recv : x->send, i * count, count,
		     key(co, co->c->side, mine(co), i));
		expect(co, i, i * count, count, mine(co));
	}
	CALL(co, MPI_Alltoall, MPI_Ialltoall, in_place ? MPI_IN_PLACE : x->send->at, count,
	     co->t->type, x->recv->at, count, co->t->type, co->c->comm);
}

/* For -v and -w: buffers, counts and displacements in elements. */
static void alltoallv_prepare(struct coll *co, int **scount, int **sdispl, int **rcount,
			      int **rdispl)
{
	struct tr_transfer *x = co->x;
	int n = npeers(co), to[TR_RANKS] = {0}, from[TR_RANKS] = {0}, send, recv;

	for (int i = 0; i < n; i++) {
		to[i] = length(co, mine(co), i);
		from[i] = length(co, i, mine(co));
	}
	send = counts(co, 0, n, to, scount, sdispl);
	recv = counts(co, 2, n, from, rcount, rdispl);
	x->send = tr_buffer_new(co->t, send);
	x->recv = tr_buffer_new(co->t, recv);
	x->want = tr_buffer_new(co->t, recv);
	for (int i = 0; i < n; i++) {
		fill(co, x->send, (*sdispl)[i], (*scount)[i], key(co, co->c->side, mine(co), i));
		expect(co, i, (*rdispl)[i], (*rcount)[i], mine(co));
	}
}

static void alltoallv(struct coll *co)
{
	int *scount, *sdispl, *rcount, *rdispl;

	alltoallv_prepare(co, &scount, &sdispl, &rcount, &rdispl);
	CALL(co, MPI_Alltoallv, MPI_Ialltoallv, co->x->send->at, scount, sdispl, co->t->type,
		co->x->recv->at, rcount, rdispl, co->t->type, co->c->comm);
}

static void alltoallw(struct coll *co)
{
	int *scount, *sdispl, *rcount, *rdispl, n = npeers(co), all = n + TR_DEGREE;
	MPI_Datatype *types = co->x->keep[4] = malloc((size_t)all * sizeof(MPI_Datatype));

	if (!types)
		abort();
	alltoallv_prepare(co, &scount, &sdispl, &rcount, &rdispl);
	/* Open MPI 4.1's Ialltoallw reads as many types as a topology has neighbours: an array of
	 * the correct length makes it crash. */
	for (int i = 0; i < all; i++)
		types[i] = co->t->type;
	for (int i = 0; i < n; i++) {
		sdispl[i] *= co->t->extent;
		rdispl[i] *= co->t->extent;
	}
	CALL(co, MPI_Alltoallw, MPI_Ialltoallw, co->x->send->at, scount, sdispl, types,
	     co->x->recv->at, rcount, rdispl, types, co->c->comm);
}

/* ---- one step */

static void draw(struct tr_run *r, struct coll *co)
{
	struct tr_comm *c = tr_comm_draw(r);

	co->r = r;
	co->c = c;
	co->t = tr_type_draw(r);
	co->count = tr_count_draw(r, co->t) / 4;
	co->root_side = c->inter ? tr_below(&r->plan, 2) : 0;
	co->root = tr_below(&r->plan, c->g[co->root_side].n);
	co->in_place = tr_chance(&r->plan, 25);
}

static void step(struct tr_run *r, bool nb)
{
	static const struct {
		const char *name;
		void (*run)(struct coll *co);
	} all[] = {
		{"Bcast", bcast}, {"Barrier", barrier}, {"Gather", gather}, {"Gatherv", gatherv},
		{"Scatter", scatter}, {"Scatterv", scatterv}, {"Allgather", allgather},
		{"Allgatherv", allgatherv}, {"Alltoall", alltoall}, {"Alltoallv", alltoallv},
		{"Alltoallw", alltoallw},
	};
	struct coll co = {.nb = nb};
	int which, due;

	draw(r, &co);
	which = tr_below(&r->plan, sizeof(all) / sizeof(all[0]));
	due = r->step + tr_below(&r->plan, TR_AHEAD);
	if (co.c->rank < 0)
		return;
	co.x = tr_transfer_new(co.c, all[which].name);
	all[which].run(&co);
	if (nb)
		tr_transfer_defer(r, co.x, due);
	else
		tr_transfer_end(r, co.x, NULL);
}

void tr_coll(struct tr_run *r)
{
	step(r, false);
}

void tr_nbc(struct tr_run *r)
{
	int n = tr_between(&r->plan, 1, 4);

	for (int i = 0; i < n; i++)
		step(r, true);
}
