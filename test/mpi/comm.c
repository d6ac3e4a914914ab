/* SPDX-License-Identifier: Apache-2.0
 * The communicators of a run. Each rank knows all of them with their members in order, also those
 * that it is not in. Slot 0 is the run's world. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

const struct tr_group *tr_peers(const struct tr_comm *c, int side)
{
	return &c->g[c->inter ? !side : 0];
}

static int index_of(const struct tr_group *g, int world)
{
	for (int i = 0; i < g->n; i++)
		if (g->world[i] == world)
			return i;
	return -1;
}

/* ---- drawing one */

static struct tr_comm *draw(struct tr_run *r, bool (*fits)(const struct tr_comm *c))
{
	int n = 0, k;

	for (int i = 0; i < TR_COMMS; i++)
		n += r->comms[i].used && fits(&r->comms[i]);
	if (!n)
		return NULL;
	k = tr_below(&r->plan, n);
	for (int i = 0; i < TR_COMMS; i++)
		if (r->comms[i].used && fits(&r->comms[i]) && !k--)
			return &r->comms[i];
	abort();
}

static bool any(const struct tr_comm *c)
{
	return c->used;
}

static bool intra(const struct tr_comm *c)
{
	return !c->inter;
}

static bool inter(const struct tr_comm *c)
{
	return c->inter;
}

static bool near(const struct tr_comm *c)
{
	return c->near;
}

struct tr_comm *tr_comm_draw(struct tr_run *r)
{
	return draw(r, any);
}

struct tr_comm *tr_comm_draw_intra(struct tr_run *r)
{
	return draw(r, intra);
}

struct tr_comm *tr_comm_draw_near(struct tr_run *r)
{
	return draw(r, near);
}

/* ---- slots */

void tr_comm_free(struct tr_run *r, struct tr_comm *c)
{
	tr_late_post(r, c, true);
	tr_settle(r, c, true);
	tr_channel_end(r, c);
	if (c->comm != MPI_COMM_NULL)
		MPI_Comm_free(&c->comm);
	free(c->near);
	*c = (struct tr_comm){.comm = MPI_COMM_NULL};
}

struct tr_comm *tr_comm_slot(struct tr_run *r)
{
	for (int i = 1; i < TR_COMMS; i++)
		if (!r->comms[i].used)
			return &r->comms[i];
	abort(); /* never: tr_comm_step has freed a slot */
}

static void free_slots(struct tr_run *r, int slots)
{
	for (int i = 1; i < TR_COMMS; i++)
		slots -= !r->comms[i].used;
	while (slots > 0) {
		struct tr_comm *c = &r->comms[tr_between(&r->plan, 1, TR_COMMS - 1)];

		if (c->used) {
			tr_comm_free(r, c);
			slots--;
		}
	}
}

static void check_group(struct tr_run *r, MPI_Group group, const struct tr_group *want)
{
	int n, to[TR_RANKS], from[TR_RANKS];
	MPI_Group world;

	MPI_Group_size(group, &n);
	tr_equal(r, "size of a communicator's group", n, want->n);
	for (int i = 0; i < n; i++)
		from[i] = i;
	MPI_Comm_group(r->comms[0].comm, &world);
	MPI_Group_translate_ranks(group, n, from, world, to);
	for (int i = 0; i < n; i++)
		tr_equal(r, "rank in the world of a communicator's rank", to[i], want->world[i]);
	MPI_Group_free(&world);
	MPI_Group_free(&group);
}

void tr_comm_set(struct tr_run *r, struct tr_comm *c, MPI_Comm comm)
{
	MPI_Group group;
	int flag, n, rank;

	c->used = true;
	c->comm = comm;
	c->inter = c->g[1].n;
	c->side = c->inter && index_of(&c->g[1], r->me) >= 0;
	c->rank = index_of(&c->g[c->side], r->me);
	tr_need(r, (c->rank < 0) == (comm == MPI_COMM_NULL), "a new communicator is %s",
		c->rank < 0 ? "one, expected MPI_COMM_NULL" : "MPI_COMM_NULL");
	if (c->rank < 0)
		return;
	MPI_Comm_test_inter(comm, &flag);
	tr_equal(r, "Comm_test_inter", flag, c->inter);
	MPI_Comm_size(comm, &n);
	tr_equal(r, "Comm_size", n, c->g[c->side].n);
	MPI_Comm_rank(comm, &rank);
	tr_equal(r, "Comm_rank", rank, c->rank);
	MPI_Comm_group(comm, &group);
	check_group(r, group, &c->g[c->side]);
	if (!c->inter)
		return;
	MPI_Comm_remote_size(comm, &n);
	tr_equal(r, "Comm_remote_size", n, c->g[!c->side].n);
	MPI_Comm_remote_group(comm, &group);
	check_group(r, group, &c->g[!c->side]);
}

void tr_comm_start(struct tr_run *r, MPI_Comm world)
{
	struct tr_comm *c = &r->comms[0];

	for (int i = 0; i < TR_COMMS; i++)
		r->comms[i].comm = MPI_COMM_NULL;
	c->g[0].n = r->n;
	for (int i = 0; i < r->n; i++)
		c->g[0].world[i] = i;
	c->comm = world; /* its group is read below */
	tr_comm_set(r, c, world);
}

void tr_comm_end(struct tr_run *r)
{
	for (int i = TR_COMMS - 1; i > 0; i--)
		if (r->comms[i].used)
			tr_comm_free(r, &r->comms[i]);
}

/* ---- making a communicator from another */

static void make_dup(struct tr_run *r, const struct tr_comm *from, int kind)
{
	struct tr_comm *c = tr_comm_slot(r);
	MPI_Comm comm = MPI_COMM_NULL;
	MPI_Request req;
	MPI_Info info;
	int result;

	c->g[0] = from->g[0];
	c->g[1] = from->g[1];
	if (from->rank >= 0 && kind == 0)
		MPI_Comm_dup(from->comm, &comm);
	if (from->rank >= 0 && kind == 1) {
		MPI_Comm_idup(from->comm, &comm, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
	if (from->rank >= 0 && kind == 2) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "gpuckpt_test", "1");
		MPI_Comm_dup_with_info(from->comm, info, &comm);
		MPI_Info_free(&info);
	}
	tr_comm_set(r, c, comm);
	if (c->rank < 0)
		return;
	MPI_Comm_compare(from->comm, comm, &result);
	tr_equal(r, "Comm_compare with a duplicate", result, MPI_CONGRUENT);
}

/* Random colours (some ranks have none), and keys that sometimes reverse the order. */
static void make_split(struct tr_run *r, const struct tr_comm *from)
{
	int colours = tr_between(&r->plan, 1, 2), colour[TR_RANKS], n = from->g[0].n;
	bool reverse = tr_chance(&r->plan, 40);
	MPI_Comm comm = MPI_COMM_NULL;

	for (int i = 0; i < n; i++)
		colour[i] = tr_chance(&r->plan, 15) ? MPI_UNDEFINED : tr_below(&r->plan, colours);
	if (from->rank >= 0)
		MPI_Comm_split(from->comm, colour[from->rank], reverse ? -from->rank : 0, &comm);
	for (int k = 0; k < colours; k++) {
		struct tr_group g = {0};

		for (int i = 0; i < n; i++) {
			int rank = reverse ? n - 1 - i : i;

			if (colour[rank] == k)
				g.world[g.n++] = from->g[0].world[rank];
		}
		if (!g.n)
			continue;
		struct tr_comm *c = tr_comm_slot(r);

		c->g[0] = g;
		tr_comm_set(r, c,
			    from->rank >= 0 && colour[from->rank] == k ? comm : MPI_COMM_NULL);
	}
}

/* Some ranks of a communicator in any order, by Comm_create, which all ranks call, or by
 * Comm_create_group. */
static void make_create(struct tr_run *r, const struct tr_comm *from, bool members_only)
{
	struct tr_comm *c = tr_comm_slot(r);
	int chosen[TR_RANKS], n = from->g[0].n, m = tr_between(&r->plan, 1, n);
	MPI_Comm comm = MPI_COMM_NULL;
	MPI_Group all, some;
	bool member = false;

	for (int i = 0; i < n; i++)
		chosen[i] = i;
	for (int i = 0; i < m; i++) {
		int k = tr_between(&r->plan, i, n - 1), swap = chosen[i];

		chosen[i] = chosen[k];
		chosen[k] = swap;
		c->g[0].world[i] = from->g[0].world[chosen[i]];
		member |= chosen[i] == from->rank;
	}
	c->g[0].n = m;
	if (from->rank >= 0) {
		MPI_Comm_group(from->comm, &all);
		MPI_Group_incl(all, m, chosen, &some);
		if (!members_only)
			MPI_Comm_create(from->comm, some, &comm);
		else if (member)
			MPI_Comm_create_group(from->comm, some, r->step % 1000, &comm);
		MPI_Group_free(&all);
		MPI_Group_free(&some);
	}
	tr_comm_set(r, c, comm);
}

/* The lower and the upper part of a communicator, each in a temporary communicator. */
static void make_inter(struct tr_run *r, const struct tr_comm *from)
{
	int n = from->g[0].n, m = tr_between(&r->plan, 1, n - 1);
	struct tr_comm *c;
	MPI_Comm comm = MPI_COMM_NULL, part;
	bool upper = from->rank >= m;

	if (n < 2)
		return;
	c = tr_comm_slot(r);
	for (int i = 0; i < n; i++)
		c->g[i >= m].world[i >= m ? i - m : i] = from->g[0].world[i];
	c->g[0].n = m;
	c->g[1].n = n - m;
	if (from->rank >= 0) {
		MPI_Comm_split(from->comm, upper, 0, &part);
		MPI_Intercomm_create(part, 0, from->comm, upper ? 0 : m, r->step % 1000, &comm);
		MPI_Comm_free(&part);
	}
	tr_comm_set(r, c, comm);
}

static void make_merge(struct tr_run *r, const struct tr_comm *from)
{
	struct tr_comm *c = tr_comm_slot(r);
	int high = tr_below(&r->plan, 2); /* the side that comes last */
	MPI_Comm comm = MPI_COMM_NULL;

	c->g[0] = from->g[!high];
	for (int i = 0; i < from->g[high].n; i++)
		c->g[0].world[c->g[0].n++] = from->g[high].world[i];
	if (from->rank >= 0)
		MPI_Intercomm_merge(from->comm, from->side == high, &comm);
	tr_comm_set(r, c, comm);
}

/* Which ranks share a node is not in the plan: the communicator is checked and freed. */
static void make_shared(struct tr_run *r, const struct tr_comm *from)
{
	MPI_Comm comm;
	int n;

	if (from->rank < 0)
		return;
	MPI_Comm_split_type(from->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
	MPI_Comm_size(comm, &n);
	tr_need(r, n >= 1 && n <= from->g[0].n, "Comm_split_type made a communicator of %d ranks",
		n);
	MPI_Comm_free(&comm);
}

void tr_comm_step(struct tr_run *r)
{
	int kind = tr_below(&r->plan, 14);
	struct tr_comm *from;

	free_slots(r, 2);
	from = kind < 3 ? tr_comm_draw(r) : kind < 6 ? draw(r, inter) : tr_comm_draw_intra(r);
	if (!from)
		return;
	if (kind < 3)
		make_dup(r, from, kind);
	else if (kind < 6)
		make_merge(r, from);
	else if (kind < 8)
		make_inter(r, from);
	else if (kind < 9)
		make_split(r, from);
	else if (kind < 11)
		make_create(r, from, kind == 10);
	else if (kind < 12)
		make_shared(r, from);
	else
		tr_topology_make(r, from);
}
