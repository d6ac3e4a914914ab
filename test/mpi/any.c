/* SPDX-License-Identifier: Apache-2.0
 * Receives from any source and with any tag. Which message arrives first is undefined, but those of
 * one source arrive in order, each once. Exchanges with both neighbours. */
#include "traffic.h"

#include <stdlib.h>

struct any {
	struct tr_comm *c;
	int side, root, each; /* each rank of the side sends this many to a rank of the peers */
	int count;
	bool any_tag;
	int tag;
};

/* The words of a rank's k-th message. */
static void words(const struct tr_run *r, const struct any *a, int rank, int k, uint64_t *v)
{
	struct tr_rng rng = {tr_key(r, rank, k)};

	v[0] = (uint64_t)rank << 32 | (uint32_t)k;
	for (int i = 1; i < a->count; i++)
		v[i] = tr_next(&rng);
}

/* Completed at the step's end, because the receiver may be this rank. */
static void any_send(struct tr_run *r, const struct any *a)
{
	for (int k = 0; k < a->each; k++) {
		struct tr_transfer *x = tr_transfer_new(a->c,
							"a send to one that takes from any source");
		uint64_t *v = x->keep[0] = malloc((size_t)a->count * sizeof(*v));
		int tag = a->tag + (a->any_tag ? k : 0);

		if (!v)
			abort();
		words(r, a, a->c->rank, k, v);
		if (tr_chance(&r->mine, 30))
			MPI_Issend(v, a->count, MPI_UINT64_T, a->root, tag, a->c->comm, &x->req);
		else
			MPI_Isend(v, a->count, MPI_UINT64_T, a->root, tag, a->c->comm, &x->req);
		tr_transfer_defer(r, x, r->step);
	}
}

static void any_one(struct tr_run *r, const struct any *a, uint64_t *v, MPI_Status *st)
{
	int tag = a->any_tag ? MPI_ANY_TAG : a->tag;
	MPI_Message message;
	MPI_Request req;

	switch (tr_below(&r->mine, 4)) {
	case 0:
		MPI_Recv(v, a->count, MPI_UINT64_T, MPI_ANY_SOURCE, tag, a->c->comm, st);
		break;
	case 1:
		MPI_Probe(MPI_ANY_SOURCE, tag, a->c->comm, st);
		MPI_Recv(v, a->count, MPI_UINT64_T, st->MPI_SOURCE, st->MPI_TAG, a->c->comm, st);
		break;
	case 2:
		MPI_Mprobe(MPI_ANY_SOURCE, tag, a->c->comm, &message, st);
		MPI_Mrecv(v, a->count, MPI_UINT64_T, &message, st);
		break;
	default:
		MPI_Irecv(v, a->count, MPI_UINT64_T, MPI_ANY_SOURCE, tag, a->c->comm, &req);
		MPI_Wait(&req, st);
	}
}

static void any_receive(struct tr_run *r, const struct any *a)
{
	int next[TR_RANKS] = {0}, count, sources = a->c->g[a->side].n;
	uint64_t *v = malloc((size_t)a->count * sizeof(*v)),
		 *want = malloc((size_t)a->count * sizeof(*v));
	MPI_Status st;

	if (!v || !want)
		abort();
	for (int i = 0; i < sources * a->each; i++) {
		any_one(r, a, v, &st);
		int from = st.MPI_SOURCE, k;

		tr_need(r, from >= 0 && from < sources, "a message from source %d of %d", from,
			sources);
		k = next[from]++;
		MPI_Get_count(&st, MPI_UINT64_T, &count);
		tr_equal(r, "words from any source", count, a->count);
		tr_equal(r, "tag of a message from any source", st.MPI_TAG,
			 a->tag + (a->any_tag ? k : 0));
		words(r, a, from, k, want);
		for (int w = 0; w < count; w++)
			tr_need(r, v[w] == want[w],
				"message %d of source %d is its message %d: word %d is wrong", k,
				from, (int)v[0], w);
		tr_digest(r, v, (size_t)count * sizeof(*v));
	}
	free(v);
	free(want);
}

void tr_any(struct tr_run *r)
{
	struct any a = {.c = tr_comm_draw(r)};

	a.side = a.c->inter ? tr_below(&r->plan, 2) : 0;
	a.root = tr_below(&r->plan, tr_peers(a.c, a.side)->n);
	a.each = tr_between(&r->plan, 1, 12);
	a.count = tr_chance(&r->plan, 10) ? 3000 : tr_between(&r->plan, 1, 40);
	/* MPI_ANY_TAG takes any message, so no older or newer one may be in flight */
	a.any_tag = tr_chance(&r->plan, 50) && r->step > a.c->late_until;
	a.tag = r->step % 500 * 64;
	if (a.c->rank < 0)
		return;
	if (a.c->side == a.side)
		any_send(r, &a);
	if (a.c->side == (a.c->inter ? !a.side : 0) && a.c->rank == a.root)
		any_receive(r, &a);
	if (a.any_tag)
		MPI_Barrier(a.c->comm);
}

/* ---- Sendrecv: each rank sends to the one `by` further on; beyond the last is MPI_PROC_NULL */

void tr_shift(struct tr_run *r)
{
	struct tr_comm *c = tr_comm_draw_intra(r);
	const struct tr_type *t = tr_type_draw(r);
	int n = c->g[0].n, by = tr_between(&r->plan, -n + 1, n - 1), count = tr_count_draw(r, t);
	bool ring = tr_chance(&r->plan, 60), replace = tr_chance(&r->plan, 40);
	int to = c->rank + by, from = c->rank - by, tag = r->step % 500 * 64;
	MPI_Status st;

	if (c->rank < 0)
		return;
	to = ring ? (to + n) % n : to < 0 || to >= n ? MPI_PROC_NULL : to;
	from = ring ? (from + n) % n : from < 0 || from >= n ? MPI_PROC_NULL : from;
	struct tr_transfer *x = tr_transfer_new(c, replace ? "Sendrecv_replace" : "Sendrecv");

	x->send = tr_buffer_new(t, count);
	x->recv = tr_buffer_new(t, count);
	x->want = tr_buffer_new(t, count);
	x->source = from;
	x->tag = from == MPI_PROC_NULL ? MPI_ANY_TAG : tag;
	x->bytes = from == MPI_PROC_NULL ? 0 : count * t->size;
	tr_buffer_fill(replace ? x->recv : x->send, t, 0, count, tr_key(r, c->rank, 0));
	if (from != MPI_PROC_NULL)
		tr_buffer_fill(x->want, t, 0, count, tr_key(r, from, 0));
	else if (replace)
		tr_buffer_fill(x->want, t, 0, count, tr_key(r, c->rank, 0));
	if (replace)
		MPI_Sendrecv_replace(x->recv->at, count, t->type, to, tag, from, tag, c->comm, &st);
	else
		MPI_Sendrecv(x->send->at, count, t->type, to, tag, x->recv->at, count, t->type,
			     from, tag, c->comm, &st);
	tr_transfer_end(r, x, &st);
}
