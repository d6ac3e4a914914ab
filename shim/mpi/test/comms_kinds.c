/* SPDX-License-Identifier: Apache-2.0
 * Each kind of communicator has its ranks, topology and context after a restart. */
#include "shim/mpi/test/comms.h"

/* Checks its ranks, by world rank, and this rank's own. */
static void works(MPI_Comm comm, int n, const int *world)
{
	int got[8] = { -1 }, me;

	MPI_Comm_rank(comm, &me);
	IS(MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, comm), MPI_SUCCESS);
	IS(world[me], rank);
	for (int i = 0; i < n; i++)
		IS(got[i], world[i]);
}

static const int everybody[] = { 0, 1, 2, 3 };

void test_dup(void)
{
	MPI_Comm a, b, self;
	int result;

	MPI_Comm_dup(MPI_COMM_WORLD, &a);
	MPI_Comm_dup_with_info(a, MPI_INFO_NULL, &b);
	MPI_Comm_dup(MPI_COMM_SELF, &self);
	cycle();
	works(a, 4, everybody);
	works(b, 4, everybody);
	works(self, 1, &rank);
	MPI_Comm_compare(a, b, &result);
	IS(result, MPI_CONGRUENT);
	MPI_Comm_free(&a);
	CHECK(a == MPI_COMM_NULL);
	cycle();
	works(b, 4, everybody);
	MPI_Comm_free(&b);
	MPI_Comm_free(&self);
}

void test_split(void)
{
	int reversed[] = { 3, 2, 1, 0 }, odd[] = { rank % 2, rank % 2 + 2 };
	MPI_Comm all, half, node;

	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &all);
	MPI_Comm_split(all, rank == 3 ? MPI_UNDEFINED : rank % 2, rank, &half);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	cycle();
	works(all, 4, reversed);
	works(node, 4, everybody);
	if (rank == 3)
		CHECK(half == MPI_COMM_NULL);
	else
		works(half, rank % 2 ? 1 : 2, odd);
	if (rank != 3)
		MPI_Comm_free(&half);
	MPI_Comm_free(&all);
	MPI_Comm_free(&node);
}

void test_create(void)
{
	int three[] = { 2, 0, 3 };
	MPI_Group world, group;
	MPI_Comm a, b = MPI_COMM_NULL, c = MPI_COMM_NULL;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 3, three, &group);
	MPI_Comm_create(MPI_COMM_WORLD, group, &a);
	if (rank != 1) {
		MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &b);
		MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &c);
	}
	cycle();
	if (rank == 1) {
		CHECK(a == MPI_COMM_NULL);
	} else {
		works(a, 3, three);
		works(b, 3, three);
		works(c, 3, three);
		MPI_Comm_disconnect(&a);
		MPI_Comm_free(&b);
		MPI_Comm_free(&c);
	}
	MPI_Group_free(&group);
	MPI_Group_free(&world);
}

void test_groups(void)
{
	int range[1][3] = { { 3, 0, -1 } }, one = 1, n, to, zero = 0, result;
	MPI_Group world, back, less, none, both;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_range_incl(world, 1, range, &back);
	MPI_Group_excl(back, 1, &one, &less);
	MPI_Group_difference(world, back, &none);
	MPI_Group_union(less, world, &both);
	cycle();
	MPI_Group_rank(back, &n);
	IS(n, 3 - rank);
	MPI_Group_size(less, &n);
	IS(n, 3);
	MPI_Group_translate_ranks(less, 1, &zero, world, &to);
	IS(to, 3);
	MPI_Group_compare(none, MPI_GROUP_EMPTY, &result);
	IS(result, MPI_IDENT);
	MPI_Group_compare(both, world, &result);
	IS(result, MPI_SIMILAR);
	MPI_Group_free(&back);
	MPI_Group_free(&less);
	MPI_Group_free(&none);
	MPI_Group_free(&both);
	MPI_Group_free(&world);
}

void test_cart(void)
{
	int dims[] = {2, 2}, periods[] = {1, 0}, keep[] = {0, 1}, got[2], wraps[2], at[2], n, kind;
	int row[] = { rank & ~1, rank | 1 };
	MPI_Comm cart, sub, dup, part;

	MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
	MPI_Cart_sub(cart, keep, &sub);
	MPI_Comm_dup(cart, &dup);
	MPI_Comm_split(cart, rank / 2, 0, &part);
	cycle();
	MPI_Cart_get(cart, 2, got, wraps, at);
	CHECK(got[0] == 2 && got[1] == 2 && wraps[0] && !wraps[1]);
	CHECK(at[0] == rank / 2 && at[1] == rank % 2);
	MPI_Cart_map(part, 1, dims, periods, &n);
	IS(n, rank % 2);
	MPI_Cart_shift(cart, 1, 1, &n, &kind);
	IS(kind, rank % 2 ? MPI_PROC_NULL : rank + 1);
	MPI_Topo_test(dup, &kind);
	IS(kind, MPI_CART);
	MPI_Cartdim_get(sub, &n);
	IS(n, 1);
	works(cart, 4, everybody);
	works(sub, 2, row);
	works(part, 2, row);
	MPI_Comm_free(&cart);
	MPI_Comm_free(&sub);
	MPI_Comm_free(&dup);
	MPI_Comm_free(&part);
}

void test_graph(void)
{
	int index[] = { 2, 3, 4, 6 }, edges[] = { 1, 3, 0, 3, 0, 2 }, near[4], n, m, got[10];
	MPI_Comm graph;

	MPI_Graph_create(MPI_COMM_WORLD, 4, index, edges, 0, &graph);
	cycle();
	MPI_Graphdims_get(graph, &n, &m);
	CHECK(n == 4 && m == 6);
	MPI_Graph_get(graph, 4, 6, got, got + 4);
	CHECK(!memcmp(got, index, sizeof index) && !memcmp(got + 4, edges, sizeof edges));
	MPI_Graph_map(graph, 2, index, edges, &n); /* two nodes: the first two ranks have them */
	IS(n, rank < 2 ? rank : MPI_UNDEFINED);
	MPI_Graph_neighbors_count(graph, 3, &n);
	IS(n, 2);
	MPI_Graph_neighbors(graph, 3, 4, near);
	CHECK(near[0] == 0 && near[1] == 2);
	works(graph, 4, everybody);
	MPI_Comm_free(&graph);
}

void test_dist_graph(void)
{
	int from = (rank + 3) % 4, to = (rank + 1) % 4, weight = rank + 10, one = 1;
	int in, out, weighted, source, target, inweight, outweight;
	MPI_Comm ring, bare;

	MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &to, &weight, MPI_INFO_NULL, 0,
			      &ring);
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank > 0, &from, MPI_UNWEIGHTED, rank < 3,
				       &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &bare);
	cycle();
	MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
	CHECK(in == 1 && out == 1 && weighted);
	MPI_Dist_graph_neighbors(ring, 1, &source, &inweight, 1, &target, &outweight);
	CHECK(source == from && target == to && inweight == from + 10 && outweight == weight);
	MPI_Dist_graph_neighbors_count(bare, &in, &out, &weighted);
	CHECK(in == (rank > 0) && out == (rank < 3) && !weighted);
	MPI_Neighbor_allgather(&rank, 1, MPI_INT, &source, 1, MPI_INT, ring);
	IS(source, from);
	MPI_Comm_free(&ring);
	MPI_Comm_free(&bare);
}

void test_intercomm(void)
{
	int n, sum = 0, first = rank % 2 ? 0 : 1;
	MPI_Comm half, inter, dup, merged;
	MPI_Group remote;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first, 9, &inter);
	MPI_Comm_dup(inter, &dup);
	MPI_Intercomm_merge(inter, rank % 2, &merged);
	cycle();
	MPI_Comm_remote_size(inter, &n);
	IS(n, 2);
	MPI_Comm_remote_group(dup, &remote);
	MPI_Group_size(remote, &n);
	IS(n, 2);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
	IS(sum, rank % 2 ? 2 : 4);
	MPI_Sendrecv(&rank, 1, MPI_INT, 1, 3, &n, 1, MPI_INT,
		     rank / 2 ? MPI_ANY_SOURCE : MPI_PROC_NULL, 3, dup,
		     MPI_STATUS_IGNORE); /* ranks 2 and 3 receive from both */
	if (rank / 2)
		MPI_Recv(&n, 1, MPI_INT, MPI_ANY_SOURCE, 3, dup, MPI_STATUS_IGNORE);
	works(merged, 4, (int[]){ 0, 2, 1, 3 });
	MPI_Group_free(&remote);
	MPI_Comm_free(&half);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&dup);
	MPI_Comm_free(&merged);
}

static void read_hints(MPI_Comm comm, char *text, size_t capacity)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
	MPI_Info info;
	int n = 0, there;

	*text = 0;
	MPI_Comm_get_info(comm, &info);
	MPI_Info_get_nkeys(info, &n);
	for (int i = 0; i < n; i++) {
		MPI_Info_get_nthkey(info, i, key);
		MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &there);
		snprintf(text + strlen(text), capacity - strlen(text), "%s=%s;", key, value);
	}
	MPI_Info_free(&info);
}

/* A hint has the same value after a restart, whatever Open MPI makes of it. */
void test_hints(void)
{
	char before[1000], after[1000];
	MPI_Info info;
	MPI_Comm comm;

	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
	MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
	MPI_Comm_set_info(comm, info);
	read_hints(comm, before, sizeof before);
	cycle();
	read_hints(comm, after, sizeof after);
	CHECK(!strcmp(before, after));
	MPI_Info_free(&info);
	MPI_Comm_free(&comm);
}

/* Ranks 0 and 1 have freed the communicator while a receive and a persistent send use it; in the
 * others nothing uses it. The message is sent after the restart. */
void test_freed_pending(void)
{
	MPI_Request request = MPI_REQUEST_NULL;
	int got = 0, value = 4711;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (rank == 0)
		MPI_Irecv(&got, 1, MPI_INT, 1, 8, comm, &request);
	if (rank == 1)
		MPI_Send_init(&value, 1, MPI_INT, 0, 8, comm, &request);
	MPI_Comm_free(&comm);
	cycle();
	if (rank == 1)
		MPI_Start(&request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank == 0)
		IS(got, 4711);
	if (rank == 1)
		MPI_Request_free(&request);
}

/* ---- forty communicators, made from each other at random; some are freed --------------------- */

static unsigned seed = 12345;

static unsigned roll(unsigned n) /* the same in all ranks */
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static MPI_Comm halves(MPI_Comm from, int n)
{
	int me, low;
	MPI_Comm half, inter;

	MPI_Comm_rank(from, &me);
	low = me < n / 2;
	MPI_Comm_split(from, low, me, &half);
	MPI_Intercomm_create(half, 0, from, low ? n / 2 : 0, 11, &inter);
	MPI_Comm_free(&half);
	return inter;
}

static MPI_Comm make(MPI_Comm from, unsigned kind, int colors)
{
	int n, no = 0, inter;
	MPI_Comm comm;

	MPI_Comm_test_inter(from, &inter);
	MPI_Comm_size(from, &n);
	if (inter && kind % 2)
		MPI_Intercomm_merge(from, 0, &comm);
	else if (inter || kind == 0)
		MPI_Comm_dup(from, &comm);
	else if (kind == 1)
		MPI_Comm_split(from,
			       colors ? rank % colors
			       : rank ? 0
				      : MPI_UNDEFINED,
			       -rank, &comm);
	else if (kind == 2)
		MPI_Cart_create(from, 1, &n, &no, 0, &comm);
	else if (kind == 3 && n > 1)
		return halves(from, n);
	else
		MPI_Comm_split(from, 0, rank, &comm);
	return comm;
}

static void sum_up(MPI_Comm comm)
{
	int n = 0, inter, sum = 0, one = 1;

	if (comm == MPI_COMM_NULL)
		return;
	MPI_Comm_test_inter(comm, &inter);
	(inter ? MPI_Comm_remote_size : MPI_Comm_size)(comm, &n);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	IS(sum, n);
}

void test_forty(void)
{
	MPI_Comm comm[40];
	bool made[40] = { false }; /* exists in some ranks */

	for (int step = 0; step < 300; step++) {
		int i = roll(40), from = roll(40), kind = roll(5), colors = roll(3);
		MPI_Comm parent = made[from] ? comm[from] : MPI_COMM_WORLD;

		if (step % 60 == 59)
			cycle();
		if (!made[i])
			comm[i] = parent == MPI_COMM_NULL ? parent : make(parent, kind, colors);
		else if (comm[i] != MPI_COMM_NULL)
			MPI_Comm_free(&comm[i]);
		made[i] = !made[i];
	}
	for (int i = 0; i < 40; i++)
		if (made[i])
			sum_up(comm[i]);
	cycle();
	for (int i = 0; i < 40; i++) {
		if (!made[i] || comm[i] == MPI_COMM_NULL)
			continue;
		sum_up(comm[i]);
		MPI_Comm_free(&comm[i]);
	}
}
