/* SPDX-License-Identifier: Apache-2.0
 * Reductions, blocking and non-blocking: predefined operations on several types, MAXLOC and MINLOC,
 * and a user operation that depends on the order of the ranks. Each expected element is computed
 * from the ranks' inputs, in rank order. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

/* Composition of x -> a x + b: associative but not commutative. */
struct affine {
	uint32_t a, b;
};

static struct affine after(struct affine f, struct affine g)
{
	return (struct affine){g.a * f.a, g.a * f.b + g.b};
}

static void affine_op(void *in, void *inout, int *n, MPI_Datatype *type)
{
	struct affine *f = in, *g = inout;
	int size;

	MPI_Type_size(*type, &size);
	for (int i = 0; i < *n * size / (int)sizeof(*f); i++)
		g[i] = after(f[i], g[i]);
}

union value {
	long long i;
	struct affine f;
	struct {
		int value, index;
	} loc;
};

enum form { FORM_INT, FORM_LONG, FORM_DOUBLE, FORM_FLOAT, FORM_SHORT, FORM_LOC, FORM_AFFINE };

struct reduction {
	struct tr_run *r;
	struct tr_comm *c;
	enum form form;
	int op, count, root_side, root;
	bool nb, in_place;
	MPI_Datatype type;
	MPI_Op mpi_op;
	struct tr_type model; /* for the buffers */
	int at[8];
	struct tr_transfer *x;
};

enum { SUM, PROD, MAX, MIN, BAND, BOR, BXOR, LAND, LOR, LXOR, NOPS };

static long long fold(int op, long long a, long long b)
{
	switch (op) {
	case SUM: return a + b;
	case PROD: return a * b;
	case MAX: return a > b ? a : b;
	case MIN: return a < b ? a : b;
	case BAND: return a & b;
	case BOR: return a | b;
	case BXOR: return a ^ b;
	case LAND: return a && b;
	case LOR: return a || b;
	default: return !a != !b;
	}
}

/* Element e of the input of rank i of a side; small, so that each type holds each result
 * exactly. */
static union value given(const struct reduction *d, int side, int i, int e)
{
	uint64_t h = tr_mix(tr_key(d->r, side, i), (uint64_t)e);
	union value v = {0};

	if (d->form == FORM_AFFINE)
		v.f = (struct affine){(uint32_t)h | 1, (uint32_t)(h >> 32)};
	else if (d->form == FORM_LOC) {
		v.loc.value = (int)(h % 5);
		v.loc.index = i;
	} else {
		v.i = (long long)(d->op == PROD ? 1 + h % 2 : h % 8);
	}
	return v;
}

static union value combine(const struct reduction *d, union value a, union value b)
{
	if (d->form == FORM_AFFINE) {
		a.f = after(a.f, b.f);
		return a;
	}
	if (d->form == FORM_LOC) /* of equal values the lowest index: a's */
		return (d->op == MAX ? b.loc.value > a.loc.value : b.loc.value < a.loc.value) ? b
											      : a;
	a.i = fold(d->op, a.i, b.i);
	return a;
}

static void put(const struct reduction *d, struct tr_buffer *b, int e, union value v)
{
	char *to = b->at + (ptrdiff_t)e * d->model.extent;

	switch (d->form) {
	case FORM_INT: memcpy(to, &(int){(int)v.i}, 4); break;
	case FORM_LONG: memcpy(to, &v.i, 8); break;
	case FORM_DOUBLE: memcpy(to, &(double){(double)v.i}, 8); break;
	case FORM_FLOAT: memcpy(to, &(float){(float)v.i}, 4); break;
	case FORM_SHORT: memcpy(to, &(short){(short)v.i}, 2); break;
	default: memcpy(to, &v, 8); break;
	}
}

/* Element e of the reduction over ranks first … last of a side. */
static union value result(const struct reduction *d, int side, int first, int last, int e)
{
	union value v = given(d, side, first, e);

	for (int i = first + 1; i <= last; i++)
		v = combine(d, v, given(d, side, i, e));
	return v;
}

static void draw_form(struct tr_run *r, struct reduction *d)
{
	static const struct {
		MPI_Datatype type;
		int size;
	} forms[] = {{MPI_INT, 4},   {MPI_LONG_LONG, 8}, {MPI_DOUBLE, 8},
		     {MPI_FLOAT, 4}, {MPI_SHORT, 2},     {MPI_2INT, 8}};
	static const MPI_Op ops[NOPS] = {MPI_SUM, MPI_PROD, MPI_MAX,  MPI_MIN, MPI_BAND,
					 MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};

	d->form = tr_below(&r->plan, FORM_AFFINE + 2);
	if (d->form > FORM_AFFINE)
		d->form = FORM_AFFINE;
	d->op = d->form == FORM_LOC ? tr_between(&r->plan, MAX, MIN)
		: d->form == FORM_DOUBLE || d->form == FORM_FLOAT ? tr_below(&r->plan, BAND)
		: tr_below(&r->plan, NOPS);
	if (d->form == FORM_SHORT && d->op == PROD)
		d->op = SUM;
	if (d->form == FORM_AFFINE) {
		MPI_Type_contiguous(2, MPI_UINT32_T, &d->type);
		MPI_Type_commit(&d->type);
		MPI_Op_create(affine_op, 0, &d->mpi_op);
	} else {
		d->type = forms[d->form].type;
		d->mpi_op = d->form == FORM_LOC ? d->op == MAX ? MPI_MAXLOC : MPI_MINLOC
						: ops[d->op];
	}
	d->model = (struct tr_type){.extent = d->form == FORM_AFFINE ? 8 : forms[d->form].size};
}

/* Makes the buffers: this rank's input, m elements for the result, and the expected result if this
 * rank gets one. */
static void prepare(struct reduction *d, int n, int m)
{
	struct tr_transfer *x = d->x;

	x->send = tr_buffer_new(&d->model, n);
	x->recv = tr_buffer_new(&d->model, d->in_place && n > m ? n : m);
	x->want = tr_buffer_new(&d->model, d->in_place && n > m ? n : m);
	for (int e = 0; e < n; e++)
		put(d, d->in_place ? x->recv : x->send, e, given(d, d->c->side, d->c->rank, e));
}

static void expect(struct reduction *d, int side, int first, int last, int from, int n)
{
	for (int e = 0; e < n; e++)
		put(d, d->x->want, e, result(d, side, first, last, from + e));
}

#define CALL(d, blocking, nonblocking, ...) \
	((d)->nb ? nonblocking(__VA_ARGS__, &(d)->x->req) : blocking(__VA_ARGS__))

static void *source(const struct reduction *d)
{
	return d->in_place ? MPI_IN_PLACE : d->x->send->at;
}

static int peer_side(const struct reduction *d)
{
	return d->c->inter ? !d->c->side : 0;
}

static void reduce(struct reduction *d)
{
	bool root = d->c->side == d->root_side && d->c->rank == d->root;
	int argument = d->root;

	if (d->c->inter && d->c->side == d->root_side)
		argument = root ? MPI_ROOT : MPI_PROC_NULL;
	d->in_place = d->in_place && root;
	prepare(d, d->count, d->count);
	if (root)
		expect(d, peer_side(d), 0, tr_peers(d->c, d->c->side)->n - 1, 0, d->count);
	CALL(d, MPI_Reduce, MPI_Ireduce, source(d), d->x->recv->at, d->count, d->type, d->mpi_op,
	     argument, d->c->comm);
}

static void allreduce(struct reduction *d)
{
	prepare(d, d->count, d->count);
	expect(d, peer_side(d), 0, tr_peers(d->c, d->c->side)->n - 1, 0, d->count);
	CALL(d, MPI_Allreduce, MPI_Iallreduce, source(d), d->x->recv->at, d->count, d->type,
	     d->mpi_op, d->c->comm);
}

static void scan(struct reduction *d)
{
	prepare(d, d->count, d->count);
	expect(d, 0, 0, d->c->rank, 0, d->count);
	CALL(d, MPI_Scan, MPI_Iscan, source(d), d->x->recv->at, d->count, d->type, d->mpi_op,
	     d->c->comm);
}

/* Rank 0's result is undefined: not in place, so that its buffer is unchanged. */
static void exscan(struct reduction *d)
{
	d->in_place = false;
	prepare(d, d->count, d->count);
	if (d->c->rank)
		expect(d, 0, 0, d->c->rank - 1, 0, d->count);
	CALL(d, MPI_Exscan, MPI_Iexscan, source(d), d->x->recv->at, d->count, d->type, d->mpi_op,
		d->c->comm);
}

static void reduce_scatter_block(struct reduction *d)
{
	int n = d->c->g[0].n;

	d->in_place = false;
	prepare(d, d->count * n, d->count);
	expect(d, 0, 0, n - 1, d->c->rank * d->count, d->count);
	CALL(d, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, source(d), d->x->recv->at,
	     d->count, d->type, d->mpi_op, d->c->comm);
}

static void reduce_scatter(struct reduction *d)
{
	int n = d->c->g[0].n, *counts = d->x->keep[0] = malloc((size_t)n * sizeof(int)), all = 0,
	    from = 0;

	if (!counts)
		abort();
	for (int i = 0; i < n; i++) {
		counts[i] = d->count + i % 3;
		from += i < d->c->rank ? counts[i] : 0;
		all += counts[i];
	}
	d->in_place = false;
	prepare(d, all, counts[d->c->rank]);
	expect(d, 0, 0, n - 1, from, counts[d->c->rank]);
	CALL(d, MPI_Reduce_scatter, MPI_Ireduce_scatter, source(d), d->x->recv->at, counts, d->type,
		d->mpi_op, d->c->comm);
}

/* Without communication: reduces one vector into another, in the order of the operation. */
static void reduce_local(struct reduction *d)
{
	struct tr_transfer *x = d->x;
	int commutes;

	d->in_place = d->nb = false;
	prepare(d, d->count, d->count);
	for (int e = 0; e < d->count; e++) {
		put(d, x->recv, e, given(d, d->c->side, d->c->rank + 1, e));
		put(d, x->want, e, result(d, d->c->side, d->c->rank, d->c->rank + 1, e));
	}
	MPI_Reduce_local(x->send->at, x->recv->at, d->count, d->type, d->mpi_op);
	MPI_Op_commutative(d->mpi_op, &commutes);
	tr_equal(d->r, "Op_commutative", commutes, d->form != FORM_AFFINE);
}

static void step(struct tr_run *r, bool nb)
{
	static const struct {
		const char *name;
		void (*run)(struct reduction *d);
		bool intra_only;
	} all[] = {
		{"Reduce", reduce, false}, {"Allreduce", allreduce, false}, {"Scan", scan, true},
		{"Exscan", exscan, true}, {"Reduce_scatter_block", reduce_scatter_block, true},
		{"Reduce_scatter", reduce_scatter, true}, {"Reduce_local", reduce_local, false},
	};
	int which = tr_below(&r->plan, sizeof(all) / sizeof(all[0])), due;
	struct reduction d = {.r = r, .nb = nb};

	d.c = all[which].intra_only ? tr_comm_draw_intra(r) : tr_comm_draw(r);
	draw_form(r, &d);
	d.count = tr_chance(&r->plan, 10) ? tr_below(&r->plan, 3000) : tr_between(&r->plan, 1, 20);
	d.root_side = d.c->inter ? tr_below(&r->plan, 2) : 0;
	d.root = tr_below(&r->plan, d.c->g[d.root_side].n);
	d.in_place = tr_chance(&r->plan, 30) && !d.c->inter;
	due = r->step + tr_below(&r->plan, TR_AHEAD);
	if (d.c->rank >= 0) {
		d.x = tr_transfer_new(d.c, all[which].name);
		all[which].run(&d);
		if (d.nb)
			tr_transfer_defer(r, d.x, due);
		else
			tr_transfer_end(r, d.x, NULL);
	}
	if (d.form != FORM_AFFINE)
		return;
	/* a pending reduction still uses them */
	MPI_Op_free(&d.mpi_op);
	MPI_Type_free(&d.type);
}

void tr_reduce(struct tr_run *r)
{
	step(r, false);
}

void tr_nbreduce(struct tr_run *r)
{
	step(r, true);
}
