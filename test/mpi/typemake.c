/* SPDX-License-Identifier: Apache-2.0
 * Each constructor of derived types, with a model of its type: the offset of each byte of data. The
 * data of consecutive elements never overlaps, so all types can be used to receive. */
#include "traffic.h"

#include <stdlib.h>

enum { BYTES = 384, SPAN = 8192 }; /* of data, and of extent, at most */

struct map {
	int *at;
	int n;
	int lb, ub;
	bool any;
	int unit;
};

/* One element of t at a displacement in bytes. */
static void map_add(struct map *m, const struct tr_type *t, int where)
{
	if (!m->n)
		m->unit = t->unit;
	else if (t->size && m->unit != t->unit)
		m->unit = -1;
	for (int k = 0; k < t->size; k++)
		m->at[m->n++] = where + t->at[k];
	if (!m->any || where + t->lb < m->lb)
		m->lb = where + t->lb;
	if (!m->any || where + t->lb + t->extent > m->ub)
		m->ub = where + t->lb + t->extent;
	m->any = true;
}

static void map_block(struct map *m, const struct tr_type *t, int where, int n)
{
	for (int i = 0; i < n; i++)
		map_add(m, t, where + i * t->extent);
}

/* The number of elements of t. */
static int element_count(const struct tr_type *t, int most)
{
	int by_size = BYTES / (t->size ? t->size : 1), by_span = SPAN / (t->extent ? t->extent : 1);
	int n = by_size < by_span ? by_size : by_span;

	return n < 1 ? 1 : n < most ? n : most;
}

static MPI_Datatype contiguous(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	int n = tr_between(&r->plan, 1, element_count(t, 6));
	MPI_Datatype made;

	MPI_Type_contiguous(n, t->type, &made);
	map_block(m, t, 0, n);
	return made;
}

static MPI_Datatype vector(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	int most = element_count(t, 12), length = tr_between(&r->plan, 1, most < 3 ? most : 3);
	int n = tr_between(&r->plan, 1, most / length), stride = length + tr_below(&r->plan, 3);
	bool bytes = tr_chance(&r->plan, 50), backwards = tr_chance(&r->plan, 25);
	int step = stride * t->extent + (bytes ? 8 * tr_below(&r->plan, 3) : 0);
	MPI_Datatype made;

	/* Open MPI 4.1 takes a distance of -1 byte for a missing one */
	if (backwards && step > 1) {
		stride = -stride;
		step = -step;
	}
	if (bytes)
		MPI_Type_create_hvector(n, length, step, t->type, &made);
	else
		MPI_Type_vector(n, length, stride, t->type, &made);
	for (int i = 0; i < n; i++)
		map_block(m, t, i * step, length);
	return made;
}

/* Blocks in a shuffled order, gaps between them, displacements in elements or in bytes. */
struct blocks {
	int n, length[8], element[8];
	MPI_Aint byte[8];
};

static void blocks_draw(struct tr_run *r, const struct tr_type *t, bool equal, struct blocks *b)
{
	int most = element_count(t, 16), end = 0, length;

	b->n = tr_between(&r->plan, 1, most < 8 ? most : 8);
	length = tr_between(&r->plan, 1, most / b->n);
	for (int i = 0; i < b->n; i++) {
		b->length[i] = equal ? length : tr_below(&r->plan, most / b->n + 1);
		if (!b->length[0])
			b->length[0] = 1; /* not an empty type */
		end += tr_below(&r->plan, 3);
		b->element[i] = end;
		end += b->length[i];
	}
	for (int i = b->n - 1; i > 0; i--) {
		int k = tr_below(&r->plan, i + 1), e = b->element[i], l = b->length[i];

		b->element[i] = b->element[k];
		b->length[i] = b->length[k];
		b->element[k] = e;
		b->length[k] = l;
	}
	for (int i = 0; i < b->n; i++)
		b->byte[i] = (MPI_Aint)b->element[i] * t->extent;
}

static MPI_Datatype indexed(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	int kind = tr_below(&r->plan, 4);
	struct blocks b;
	MPI_Datatype made;

	blocks_draw(r, t, kind >= 2, &b);
	if (kind == 0)
		MPI_Type_indexed(b.n, b.length, b.element, t->type, &made);
	else if (kind == 1)
		MPI_Type_create_hindexed(b.n, b.length, b.byte, t->type, &made);
	else if (kind == 2)
		MPI_Type_create_indexed_block(b.n, b.length[0], b.element, t->type, &made);
	else
		MPI_Type_create_hindexed_block(b.n, b.length[0], b.byte, t->type, &made);
	for (int i = 0; i < b.n; i++)
		map_block(m, t, (int)b.byte[i], b.length[i]);
	return made;
}

static MPI_Datatype structure(struct tr_run *r, const struct tr_type *first, struct map *m)
{
	MPI_Datatype types[4], made;
	MPI_Aint where[4];
	int n = tr_between(&r->plan, 1, 4), length[4], end = 0;

	for (int i = 0; i < n; i++) {
		const struct tr_type *t = i ? tr_type_draw(r) : first;

		if (t->size > BYTES / 4 || t->extent > SPAN / 4)
			t = tr_type_draw_basic(r);
		length[i] = tr_between(&r->plan, 1, element_count(t, 3) < 3 ? 1 : 3);
		if (length[i] * t->size > BYTES / 4)
			length[i] = 1;
		end = (end + 7) / 8 * 8 + 8 * tr_below(&r->plan, 2);
		where[i] = end - t->lb;
		types[i] = t->type;
		map_block(m, t, (int)where[i], length[i]);
		end += length[i] * t->extent;
	}
	MPI_Type_create_struct(n, length, where, types, &made);
	/* set the bounds of a struct, because MPI may pad them to an alignment */
	MPI_Datatype padded = made;
	MPI_Aint lb = m->lb, extent = (m->ub - m->lb + 15) / 16 * 16;

	MPI_Type_create_resized(padded, lb, extent, &made);
	MPI_Type_free(&padded);
	m->ub = m->lb + (int)extent;
	return made;
}

static MPI_Datatype resized(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	int below = 8 * tr_below(&r->plan, 3), above = 8 * tr_below(&r->plan, 3);
	MPI_Datatype made;

	MPI_Type_create_resized(t->type, t->lb - below, t->extent + below + above, &made);
	map_add(m, t, 0);
	m->lb -= below;
	m->ub += above;
	return made;
}

static MPI_Datatype duplicate(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	MPI_Datatype made;

	(void)r;
	MPI_Type_dup(t->type, &made);
	map_add(m, t, 0);
	return made;
}

/* ---- arrays of two dimensions: their elements in the order of storage */

static void map_array(struct map *m, const struct tr_type *t, const int *sizes, bool fortran,
	bool (*in)(const void *arg, int i, int j), const void *arg)
{
	int n0 = sizes[0], n1 = sizes[1];

	for (int k = 0; k < n0 * n1; k++) {
		int i = fortran ? k % n0 : k / n1, j = fortran ? k / n0 : k % n1;

		if (in(arg, i, j))
			map_add(m, t, k * t->extent);
	}
	m->lb = t->lb;
	m->ub = t->lb + n0 * n1 * t->extent;
}

struct part {
	int start[2], sub[2];
};

static bool in_part(const void *arg, int i, int j)
{
	const struct part *p = arg;

	return i >= p->start[0] && i < p->start[0] + p->sub[0] && j >= p->start[1] &&
		j < p->start[1] + p->sub[1];
}

static MPI_Datatype subarray(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	bool fortran = tr_chance(&r->plan, 50);
	int sizes[2];
	struct part p;
	MPI_Datatype made;

	for (int d = 0; d < 2; d++) {
		sizes[d] = tr_between(&r->plan, 1, 4);
		p.sub[d] = tr_between(&r->plan, 1, sizes[d]);
		p.start[d] = tr_below(&r->plan, sizes[d] - p.sub[d] + 1);
	}
	MPI_Type_create_subarray(2, sizes, p.sub, p.start,
				 fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, t->type, &made);
	map_array(m, t, sizes, fortran, in_part, &p);
	return made;
}

struct grid {
	int place[2], procs[2], length[2];
};

/* Covers block and cyclic(k): element i of a dimension belongs to process i / k % procs. */
static bool in_grid(const void *arg, int i, int j)
{
	const struct grid *g = arg;

	return i / g->length[0] % g->procs[0] == g->place[0] &&
		j / g->length[1] % g->procs[1] == g->place[1];
}

static MPI_Datatype darray(struct tr_run *r, const struct tr_type *t, struct map *m)
{
	int sizes[2], distribution[2], args[2];
	bool fortran = tr_chance(&r->plan, 50);
	struct grid g;
	MPI_Datatype made;

	for (int d = 0; d < 2; d++) {
		g.procs[d] = tr_between(&r->plan, 1, 2);
		sizes[d] = 2 * tr_between(&r->plan, 1, 2);
		g.place[d] = tr_below(&r->plan, g.procs[d]);
		g.length[d] = sizes[d] / g.procs[d];
		distribution[d] = tr_chance(&r->plan, 50) ? MPI_DISTRIBUTE_BLOCK
							  : MPI_DISTRIBUTE_CYCLIC;
		if (distribution[d] == MPI_DISTRIBUTE_CYCLIC)
			g.length[d] = tr_between(&r->plan, 1, g.length[d]);
		args[d] = g.length[d];
	}
	MPI_Type_create_darray(g.procs[0] * g.procs[1], g.place[0] * g.procs[1] + g.place[1], 2,
			       sizes, distribution, args, g.procs,
			       fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, t->type, &made);
	map_array(m, t, sizes, fortran, in_grid, &g);
	return made;
}

typedef MPI_Datatype constructor(struct tr_run *r, const struct tr_type *t, struct map *m);

void tr_type_build(struct tr_run *r, struct tr_type *made)
{
	static constructor *const constructors[] = {contiguous, vector,    vector,    indexed,
						    indexed,    structure, structure, resized,
						    duplicate,  subarray,  darray};
	constructor *make = constructors[tr_below(&r->plan, 11)];
	const struct tr_type *t = tr_type_draw(r);
	struct map m = {.at = malloc((BYTES * 17 + 64) * sizeof(int))};

	/* arrays have up to 16 elements of the type and begin at 0 for any lower bound */
	if (t->size > BYTES / 16 || t->extent > SPAN / 32 ||
		(t->lb && (make == subarray || make == darray)))
		t = tr_type_draw_basic(r);
	if (!m.at)
		abort();
	*made = (struct tr_type){.type = make(r, t, &m)};
	made->size = m.n;
	made->at = m.at;
	made->lb = m.lb;
	made->extent = m.ub - m.lb;
	made->unit = m.unit;
}
