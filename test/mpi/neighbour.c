/* SPDX-License-Identifier: Apache-2.0
 * Neighbourhood collectives on grids and graphs, blocking and non-blocking. */
#include "traffic.h"

#include <stdlib.h>

struct near {
	struct tr_run *r;
	struct tr_comm *c;
	const struct tr_neighbours *me;
	const struct tr_type *t;
	int count;
	bool nb, to_each, variable; /* to_each: alltoall, else allgather */
	struct tr_transfer *x;
};

#define CALL(d, blocking, nonblocking, ...) \
	((d)->nb ? nonblocking(__VA_ARGS__, &(d)->x->req) : blocking(__VA_ARGS__))

/* The key of the data along a rank's k-th outgoing edge. */
static uint64_t key(const struct near *d, int from, int edge)
{
	return tr_key(d->r, from, d->to_each ? edge : -1);
}

/* The outgoing edge of `from` that is the k-th incoming one here. In a grid, data from the lower
 * neighbour was sent upwards; a graph has no edge twice. */
static int edge_of(const struct near *d, int k)
{
	const struct tr_neighbours *from = &d->c->near[d->me->in[k]];

	if (d->c->topology == TR_CART)
		return k ^ 1;
	for (int e = 0; e < from->nout; e++)
		if (from->out[e] == d->c->rank)
			return e;
	abort();
}

static int length(const struct near *d, int from, int edge)
{
	return d->variable ? d->count * ((from + (d->to_each ? edge : 0)) % 3) / 2 : d->count;
}

struct lists {
	int *scount, *sdispl, *rcount, *rdispl;
	MPI_Aint *sbyte, *rbyte;
	MPI_Datatype *types;
};

static void *keep(struct near *d, int slot, size_t size)
{
	void *p = d->x->keep[slot] = calloc(TR_DEGREE, size);

	if (!p)
		abort();
	return p;
}

static void prepare(struct near *d, struct lists *l)
{
	struct tr_transfer *x = d->x;
	int send = 0, recv = 0, nsend = d->to_each ? d->me->nout : 1;

	*l = (struct lists){keep(d, 0, sizeof(int)), keep(d, 1, sizeof(int)),
			    keep(d, 2, sizeof(int)),
		keep(d, 3, sizeof(int)), keep(d, 4, sizeof(MPI_Aint)), keep(d, 5, sizeof(MPI_Aint)),
		keep(d, 6, sizeof(MPI_Datatype))};
	for (int k = 0; k < TR_DEGREE; k++)
		l->types[k] = d->t->type;
	for (int k = 0; k < nsend; k++) {
		l->scount[k] = length(d, d->c->rank, k);
		l->sdispl[k] = send;
		l->sbyte[k] = (MPI_Aint)send * d->t->extent;
		send += l->scount[k];
	}
	for (int k = 0; k < d->me->nin; k++) {
		int from = d->me->in[k];

		l->rcount[k] = from == MPI_PROC_NULL ? d->count : length(d, from, edge_of(d, k));
		l->rdispl[k] = recv;
		l->rbyte[k] = (MPI_Aint)recv * d->t->extent;
		recv += l->rcount[k];
	}
	x->send = tr_buffer_new(d->t, send);
	x->recv = tr_buffer_new(d->t, recv);
	x->want = tr_buffer_new(d->t, recv);
	for (int k = 0; k < nsend; k++)
		tr_buffer_fill(x->send, d->t, l->sdispl[k], l->scount[k], key(d, d->c->rank, k));
	for (int k = 0; k < d->me->nin; k++)
		if (d->me->in[k] != MPI_PROC_NULL)
			tr_buffer_fill(x->want, d->t, l->rdispl[k], l->rcount[k],
				key(d, d->me->in[k], edge_of(d, k)));
}

static void gather(struct near *d)
{
	struct lists l;

	prepare(d, &l);
	if (d->variable)
		CALL(d, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, d->x->send->at,
		     l.scount[0], d->t->type, d->x->recv->at, l.rcount, l.rdispl, d->t->type,
		     d->c->comm);
	else
		CALL(d, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, d->x->send->at, d->count,
		     d->t->type, d->x->recv->at, d->count, d->t->type, d->c->comm);
}

static void each(struct near *d, bool by_type)
{
	struct lists l;

	prepare(d, &l);
	if (by_type)
		CALL(d, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, d->x->send->at, l.scount,
		     l.sbyte, l.types, d->x->recv->at, l.rcount, l.rbyte, l.types, d->c->comm);
	else if (d->variable)
		CALL(d, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, d->x->send->at, l.scount,
		     l.sdispl, d->t->type, d->x->recv->at, l.rcount, l.rdispl, d->t->type,
		     d->c->comm);
	else
		CALL(d, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, d->x->send->at, d->count,
		     d->t->type, d->x->recv->at, d->count, d->t->type, d->c->comm);
}

void tr_neighbour(struct tr_run *r)
{
	struct near d = {.r = r, .c = tr_comm_draw_near(r)};
	int kind = tr_below(&r->plan, 5), due = r->step + tr_below(&r->plan, TR_AHEAD);

	if (!d.c) {
		tr_comm_step(r);
		return;
	}
	d.nb = tr_chance(&r->plan, 50);
	d.t = tr_type_draw(r);
	d.count = tr_count_draw(r, d.t) / 2;
	d.to_each = kind >= 2;
	d.variable = kind == 1 || kind >= 3;
	if (d.c->rank < 0)
		return;
	d.me = &d.c->near[d.c->rank];
	d.x = tr_transfer_new(d.c, d.to_each ? "Neighbor_alltoall" : "Neighbor_allgather");
	if (d.to_each)
		each(&d, kind == 4);
	else
		gather(&d);
	if (d.nb)
		tr_transfer_defer(r, d.x, due);
	else
		tr_transfer_end(r, d.x, NULL);
}
