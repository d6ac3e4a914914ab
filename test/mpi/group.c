/* SPDX-License-Identifier: Apache-2.0
 * Groups; each operation is compared with a list of ranks. */
#include "traffic.h"

#include <string.h>

static void check(struct tr_run *r, const char *what, MPI_Group group, const int *want, int nwant)
{
	MPI_Group world;
	int n, rank, from[TR_RANKS], to[TR_RANKS], mine = MPI_UNDEFINED;

	MPI_Group_size(group, &n);
	tr_equal(r, what, n, nwant);
	MPI_Group_rank(group, &rank);
	MPI_Comm_group(r->comms[0].comm, &world);
	for (int i = 0; i < n; i++)
		from[i] = i;
	MPI_Group_translate_ranks(group, n, from, world, to);
	for (int i = 0; i < n; i++) {
		tr_equal(r, what, to[i], want[i]);
		mine = want[i] == r->me ? i : mine;
	}
	tr_equal(r, "Group_rank", rank, mine);
	MPI_Group_free(&world);
}

struct part {
	int n, rank[TR_RANKS];
	MPI_Group group;
};

static bool has(const struct part *p, int rank)
{
	for (int i = 0; i < p->n; i++)
		if (p->rank[i] == rank)
			return true;
	return false;
}

/* Some ranks of the world in any order. */
static void part_draw(struct tr_run *r, MPI_Group world, struct part *p)
{
	p->n = tr_between(&r->plan, 1, r->n);
	for (int i = 0; i < r->n; i++)
		p->rank[i] = i;
	for (int i = 0; i < p->n; i++) {
		int k = tr_between(&r->plan, i, r->n - 1), swap = p->rank[i];

		p->rank[i] = p->rank[k];
		p->rank[k] = swap;
	}
	MPI_Group_incl(world, p->n, p->rank, &p->group);
	check(r, "Group_incl", p->group, p->rank, p->n);
}

static void two_parts(struct tr_run *r, const struct part *a, const struct part *b)
{
	int want[TR_RANKS], n;
	MPI_Group made;

	memcpy(want, a->rank, sizeof(want));
	n = a->n;
	for (int i = 0; i < b->n; i++)
		if (!has(a, b->rank[i]))
			want[n++] = b->rank[i];
	MPI_Group_union(a->group, b->group, &made);
	check(r, "Group_union", made, want, n);
	MPI_Group_free(&made);

	n = 0;
	for (int i = 0; i < a->n; i++)
		if (has(b, a->rank[i]))
			want[n++] = a->rank[i];
	MPI_Group_intersection(a->group, b->group, &made);
	check(r, "Group_intersection", made, want, n);
	if (made != MPI_GROUP_EMPTY)
		MPI_Group_free(&made);

	n = 0;
	for (int i = 0; i < a->n; i++)
		if (!has(b, a->rank[i]))
			want[n++] = a->rank[i];
	MPI_Group_difference(a->group, b->group, &made);
	check(r, "Group_difference", made, want, n);
	if (made != MPI_GROUP_EMPTY)
		MPI_Group_free(&made);
}

static void leave_out(struct tr_run *r, const struct part *a)
{
	int out = tr_below(&r->plan, a->n), want[TR_RANKS], n = 0, even[TR_RANKS], result;
	MPI_Group made;

	for (int i = 0; i < a->n; i++)
		if (i != out)
			want[n++] = a->rank[i];
	MPI_Group_excl(a->group, 1, &out, &made);
	check(r, "Group_excl", made, want, n);
	MPI_Group_compare(a->group, made, &result);
	tr_equal(r, "Group_compare with one less", result, MPI_UNEQUAL);
	if (made != MPI_GROUP_EMPTY)
		MPI_Group_free(&made);

	int range[1][3] = {{0, a->n - 1, 2}};

	n = 0;
	for (int i = 0; i < a->n; i += 2)
		even[n++] = a->rank[i];
	MPI_Group_range_incl(a->group, 1, range, &made);
	check(r, "Group_range_incl", made, even, n);
	MPI_Group_free(&made);
	n = 0;
	for (int i = 1; i < a->n; i += 2)
		even[n++] = a->rank[i];
	MPI_Group_range_excl(a->group, 1, range, &made);
	check(r, "Group_range_excl", made, even, n);
	if (made != MPI_GROUP_EMPTY)
		MPI_Group_free(&made);
}

void tr_group_step(struct tr_run *r)
{
	MPI_Group world;
	struct part a, b;

	MPI_Comm_group(r->comms[0].comm, &world);
	part_draw(r, world, &a);
	part_draw(r, world, &b);
	two_parts(r, &a, &b);
	leave_out(r, &a);
	MPI_Group_free(&a.group);
	MPI_Group_free(&b.group);
	MPI_Group_free(&world);
}
