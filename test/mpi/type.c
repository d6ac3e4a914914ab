/* SPDX-License-Identifier: Apache-2.0
 * The types of a run: basic ones, and derived ones that are made and freed. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	MPI_Datatype type;
	int size;
} basics[] = {
	{MPI_INT, 4}, {MPI_DOUBLE, 8}, {MPI_CHAR, 1}, {MPI_BYTE, 1}, {MPI_SHORT, 2}, {MPI_LONG, 8},
	{MPI_FLOAT, 4}, {MPI_UINT64_T, 8}, {MPI_UNSIGNED_CHAR, 1}, {MPI_C_DOUBLE_COMPLEX, 16},
};

enum { NBASICS = sizeof(basics) / sizeof(basics[0]) };

/* MPI_DOUBLE_INT: a type with a hole at its end */
static void start_pair(struct tr_type *t)
{
	*t = (struct tr_type){.type = MPI_DOUBLE_INT, .size = 12, .extent = 16, .unit = -1,
			      .basic = true};
	t->at = malloc(12 * sizeof(int));
	if (!t->at)
		abort();
	for (int k = 0; k < 12; k++)
		t->at[k] = k;
}

void tr_type_start(struct tr_run *r)
{
	for (int i = 0; i < NBASICS; i++) {
		struct tr_type *t = &r->types[i];

		*t = (struct tr_type){basics[i].type, basics[i].size, NULL, 0,
				      basics[i].size, i, true};
		t->at = malloc((size_t)t->size * sizeof(int));
		if (!t->at)
			abort();
		for (int k = 0; k < t->size; k++)
			t->at[k] = k;
	}
	start_pair(&r->types[NBASICS]);
	r->ntypes = NBASICS + 1;
	for (int i = 0; i < r->ntypes; i++)
		tr_type_check(r, &r->types[i]);
}

static void type_free(struct tr_run *r, struct tr_type *t)
{
	if (!t->basic)
		MPI_Type_free(&t->type);
	free(t->at);
	*t = r->types[--r->ntypes];
}

void tr_type_end(struct tr_run *r)
{
	while (r->ntypes)
		type_free(r, &r->types[r->ntypes - 1]);
}

const struct tr_type *tr_type_draw(struct tr_run *r)
{
	return &r->types[tr_below(&r->plan, r->ntypes)];
}

const struct tr_type *tr_type_draw_basic(struct tr_run *r)
{
	return &r->types[tr_below(&r->plan, NBASICS)];
}

const struct tr_type *tr_type_flat(const struct tr_run *r, const struct tr_type *t)
{
	return t->unit < 0 ? NULL : &r->types[t->unit];
}

/* Mostly small, sometimes larger than the eager limit of any transport. */
int tr_count_draw(struct tr_run *r, const struct tr_type *t)
{
	int kind = tr_below(&r->plan, 20), size = t->size ? t->size : 1;
	int most = kind < 14 ? 128 : kind < 19 ? 6000 : 150000;

	return tr_below(&r->plan, most / size + 2);
}

/* Compares what MPI reports about a type with the model. */
void tr_type_check(struct tr_run *r, const struct tr_type *t)
{
	MPI_Aint lb, extent;
	MPI_Count size_x;
	int size, low = 0, high = 0;

	MPI_Type_size(t->type, &size);
	tr_equal(r, "Type_size", size, t->size);
	MPI_Type_size_x(t->type, &size_x);
	tr_equal(r, "Type_size_x", size_x, t->size);
	MPI_Type_get_extent(t->type, &lb, &extent);
	tr_equal(r, "lower bound", lb, t->lb);
	tr_equal(r, "extent", extent, t->extent);
	if (!t->size)
		return;
	low = high = t->at[0];
	for (int k = 1; k < t->size; k++) {
		low = t->at[k] < low ? t->at[k] : low;
		high = t->at[k] > high ? t->at[k] : high;
	}
	MPI_Type_get_true_extent(t->type, &lb, &extent);
	tr_equal(r, "true lower bound", lb, low);
	tr_equal(r, "true extent", extent, high + 1 - low);
}

/* Reads a derived type's constructor and arguments; frees the returned types. */
static void check_contents(struct tr_run *r, const struct tr_type *t)
{
	int ni, na, nd, combiner;

	MPI_Type_get_envelope(t->type, &ni, &na, &nd, &combiner);
	tr_need(r, combiner != MPI_COMBINER_NAMED, "a derived type says that it is a named one");
	int *ints = calloc((size_t)ni + 1, sizeof(*ints));
	MPI_Aint *addresses = calloc((size_t)na + 1, sizeof(*addresses));
	MPI_Datatype *types = calloc((size_t)nd + 1, sizeof(MPI_Datatype));

	if (!ints || !addresses || !types)
		abort();
	MPI_Type_get_contents(t->type, ni, na, nd, ints, addresses, types);
	for (int i = 0; i < nd; i++) {
		int a, b, c, inner;

		MPI_Type_get_envelope(types[i], &a, &b, &c, &inner);
		if (inner != MPI_COMBINER_NAMED)
			MPI_Type_free(&types[i]);
	}
	free(ints);
	free(addresses);
	free(types);
}

/* Sends a message of the type to the rank itself; the data must arrive where the model says. */
static void check_self(struct tr_run *r, const struct tr_type *t)
{
	uint64_t key = tr_key(r, 0, 0);
	struct tr_buffer *from = tr_buffer_new(t, 2), *to = tr_buffer_new(t, 2),
			 *want = tr_buffer_new(t, 2);

	tr_buffer_fill(from, t, 0, 2, key);
	tr_buffer_fill(want, t, 0, 2, key);
	MPI_Sendrecv(from->at, 2, t->type, 0, r->thread, to->at, 2, t->type, 0, r->thread,
		     MPI_COMM_SELF, MPI_STATUS_IGNORE);
	tr_buffer_check(r, "a new type", to, want);
	tr_buffer_free(from);
	tr_buffer_free(to);
	tr_buffer_free(want);
}

void tr_type_step(struct tr_run *r)
{
	if (r->ntypes == TR_TYPES || (r->ntypes > NBASICS + 4 && tr_chance(&r->plan, 30))) {
		int i = tr_between(&r->plan, NBASICS + 1, r->ntypes - 1);

		type_free(r, &r->types[i]);
		return;
	}
	struct tr_type *t = &r->types[r->ntypes];

	tr_type_build(r, t);
	MPI_Type_commit(&t->type);
	tr_type_check(r, t);
	check_contents(r, t);
	check_self(r, t);
	r->ntypes++;
}
