/* SPDX-License-Identifier: Apache-2.0
 * Communicators with a topology. Each rank knows the neighbours of all ranks. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

static struct tr_neighbours *near_new(int n)
{
	struct tr_neighbours *near = calloc((size_t)n, sizeof(*near));

	if (!near)
		abort();
	return near;
}

static int cart_rank(const struct tr_comm *c, const int *coords)
{
	int rank = 0;

	for (int d = 0; d < c->ndims; d++) {
		int x = coords[d];

		if (x < 0 || x >= c->dims[d]) {
			if (!c->periods[d])
				return MPI_PROC_NULL;
			x = (x + c->dims[d]) % c->dims[d];
		}
		rank = rank * c->dims[d] + x;
	}
	return rank;
}

static void cart_neighbours(struct tr_comm *c)
{
	c->near = near_new(c->g[0].n);
	for (int i = 0; i < c->g[0].n; i++) {
		struct tr_neighbours *near = &c->near[i];
		int coords[3] = {0}, rest = i;

		for (int d = c->ndims - 1; d >= 0; d--) {
			coords[d] = rest % c->dims[d];
			rest /= c->dims[d];
		}
		for (int d = 0; d < c->ndims; d++)
			for (int way = -1; way <= 1; way += 2) {
				coords[d] += way;
				near->in[near->nin++] = near->out[near->nout++] = cart_rank(c,
											    coords);
				coords[d] -= way;
			}
	}
}

static void cart_check(struct tr_run *r, const struct tr_comm *c)
{
	int n, status, dims[3], periods[3], coords[3], rank, down, up;

	MPI_Topo_test(c->comm, &status);
	tr_equal(r, "Topo_test", status, MPI_CART);
	MPI_Cartdim_get(c->comm, &n);
	tr_equal(r, "Cartdim_get", n, c->ndims);
	MPI_Cart_get(c->comm, 3, dims, periods, coords);
	for (int d = 0; d < n; d++) {
		tr_equal(r, "Cart_get's dimension", dims[d], c->dims[d]);
		tr_equal(r, "Cart_get's period", periods[d], c->periods[d]);
		MPI_Cart_shift(c->comm, d, 1, &down, &up);
		tr_equal(r, "Cart_shift's source", down, c->near[c->rank].in[2 * d]);
		tr_equal(r, "Cart_shift's destination", up, c->near[c->rank].in[2 * d + 1]);
	}
	MPI_Cart_rank(c->comm, coords, &rank);
	tr_equal(r, "Cart_rank", rank, c->rank);
	MPI_Cart_coords(c->comm, rank, 3, dims);
	tr_need(r, !memcmp(dims, coords, (size_t)n * sizeof(int)),
		"Cart_coords and Cart_get differ");
}

/* Has as many ranks as the grid has places; the others get MPI_COMM_NULL. A periodic dimension has
 * at least three: with two, both neighbours are the same rank, and its messages would be
 * ambiguous. */
static void make_cart(struct tr_run *r, const struct tr_comm *from)
{
	struct tr_comm *c = tr_comm_slot(r);
	int n = from->g[0].n - tr_below(&r->plan, 2), places = 1;
	MPI_Comm comm = MPI_COMM_NULL;

	n = n < 1 ? 1 : n;
	c->ndims = tr_between(&r->plan, 1, 3);
	MPI_Dims_create(n, c->ndims, c->dims);
	for (int d = 0; d < c->ndims; d++) {
		c->periods[d] = c->dims[d] > 2 && tr_chance(&r->plan, 50);
		places *= c->dims[d];
	}
	tr_equal(r, "places of Dims_create", places, n);
	c->topology = TR_CART;
	c->g[0] = from->g[0];
	c->g[0].n = places;
	cart_neighbours(c);
	if (from->rank >= 0)
		MPI_Cart_create(from->comm, c->ndims, c->dims, c->periods, 0, &comm);
	tr_comm_set(r, c, comm);
	if (c->rank >= 0)
		cart_check(r, c);
}

/* The slices of a grid along its first dimension; this rank's is checked and freed. */
static void look_at_slices(struct tr_run *r, const struct tr_comm *c)
{
	int remain[3] = {0, 1, 1}, n, places = 1;
	MPI_Comm slice;

	if (c->topology != TR_CART || c->ndims < 2 || c->rank < 0)
		return;
	MPI_Cart_sub(c->comm, remain, &slice);
	MPI_Comm_size(slice, &n);
	for (int d = 1; d < c->ndims; d++)
		places *= c->dims[d];
	tr_equal(r, "size of Cart_sub's slice", n, places);
	MPI_Cartdim_get(slice, &n);
	tr_equal(r, "dimensions of Cart_sub's slice", n, c->ndims - 1);
	MPI_Comm_free(&slice);
}

/* ---- graphs, without double edges and loops */

static void draw_edges(struct tr_run *r, struct tr_comm *c, bool symmetric)
{
	int n = c->g[0].n;

	c->near = near_new(n);
	for (int i = 0; i < n; i++)
		for (int k = symmetric ? i + 1 : 0; k < n; k++) {
			bool edge = tr_chance(&r->plan, 50) && k != i;
			struct tr_neighbours *a = &c->near[i], *b = &c->near[k];

			if (!edge || a->nout == TR_DEGREE || b->nin == TR_DEGREE ||
				(symmetric && (b->nout == TR_DEGREE || a->nin == TR_DEGREE)))
				continue;
			a->out[a->nout++] = k;
			b->in[b->nin++] = i;
			if (symmetric) {
				b->out[b->nout++] = i;
				a->in[a->nin++] = k;
			}
		}
}

static MPI_Comm graph_create(const struct tr_comm *c, MPI_Comm from)
{
	int index[TR_RANKS], edges[TR_RANKS * TR_DEGREE], m = 0;
	MPI_Comm comm;

	for (int i = 0; i < c->g[0].n; i++) {
		for (int k = 0; k < c->near[i].nout; k++)
			edges[m++] = c->near[i].out[k];
		index[i] = m;
	}
	MPI_Graph_create(from, c->g[0].n, index, edges, 0, &comm);
	return comm;
}

/* The weight of an edge identifies its end. */
static void weights(const struct tr_comm *c, int rank, int *in, int *out)
{
	for (int i = 0; i < c->near[rank].nin; i++)
		in[i] = c->near[rank].in[i] * TR_RANKS + rank;
	for (int i = 0; i < c->near[rank].nout; i++)
		out[i] = rank * TR_RANKS + c->near[rank].out[i];
}

static MPI_Comm dist_graph_create(const struct tr_comm *c, const struct tr_comm *from)
{
	const struct tr_neighbours *near = &c->near[from->rank];
	int in[TR_DEGREE] = {0}, out[TR_DEGREE] = {0};
	MPI_Comm comm;

	weights(c, from->rank, in, out);
	MPI_Dist_graph_create_adjacent(from->comm, near->nin, near->in, in, near->nout, near->out,
				       out, MPI_INFO_NULL, 0, &comm);
	return comm;
}

static void graph_check(struct tr_run *r, const struct tr_comm *c)
{
	const struct tr_neighbours *near = &c->near[c->rank];
	int n, list[TR_DEGREE];

	MPI_Graph_neighbors_count(c->comm, c->rank, &n);
	tr_equal(r, "Graph_neighbors_count", n, near->nout);
	MPI_Graph_neighbors(c->comm, c->rank, TR_DEGREE, list);
	for (int i = 0; i < n; i++)
		tr_equal(r, "a neighbour in a graph", list[i], near->out[i]);
}

static void dist_graph_check(struct tr_run *r, const struct tr_comm *c)
{
	const struct tr_neighbours *near = &c->near[c->rank];
	int nin, nout, weighted, in[TR_DEGREE], out[TR_DEGREE], win[TR_DEGREE], wout[TR_DEGREE];
	int want_in[TR_DEGREE], want_out[TR_DEGREE];

	MPI_Dist_graph_neighbors_count(c->comm, &nin, &nout, &weighted);
	tr_equal(r, "neighbours that send", nin, near->nin);
	tr_equal(r, "neighbours that receive", nout, near->nout);
	tr_equal(r, "whether the graph has weights", weighted, 1);
	MPI_Dist_graph_neighbors(c->comm, nin, in, win, nout, out, wout);
	weights(c, c->rank, want_in, want_out);
	for (int i = 0; i < nin; i++) {
		tr_equal(r, "a neighbour that sends", in[i], near->in[i]);
		tr_equal(r, "weight of an edge in", win[i], want_in[i]);
	}
	for (int i = 0; i < nout; i++) {
		tr_equal(r, "a neighbour that receives", out[i], near->out[i]);
		tr_equal(r, "weight of an edge out", wout[i], want_out[i]);
	}
}

static void make_graph(struct tr_run *r, const struct tr_comm *from, bool distributed)
{
	struct tr_comm *c = tr_comm_slot(r);
	MPI_Comm comm = MPI_COMM_NULL;

	c->g[0] = from->g[0];
	c->topology = distributed ? TR_DIST_GRAPH : TR_GRAPH;
	draw_edges(r, c, !distributed);
	if (from->rank >= 0)
		comm = distributed ? dist_graph_create(c, from) : graph_create(c, from->comm);
	tr_comm_set(r, c, comm);
	if (c->rank < 0)
		return;
	if (distributed)
		dist_graph_check(r, c);
	else
		graph_check(r, c);
}

void tr_topology_make(struct tr_run *r, struct tr_comm *from)
{
	int kind = tr_below(&r->plan, 4);

	if (from->topology == TR_CART)
		look_at_slices(r, from);
	if (kind < 2)
		make_cart(r, from);
	else
		make_graph(r, from, kind == 3);
}
