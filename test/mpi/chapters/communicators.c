/* SPDX-License-Identifier: Apache-2.0
 * Chapter 6, groups, contexts, communicators and attributes. */
#include "test/mpi/chapters/chapters.h"

enum { MOST = 64, MANY = 12, KEPT = 30 };

static void put_group(MPI_Group g)
{
	int n = 0, me, from[MOST], to[MOST];
	MPI_Group world;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_size(g, &n);
	MPI_Group_rank(g, &me);
	for (int i = 0; i < n; i++)
		from[i] = i;
	MPI_Group_translate_ranks(g, n, from, world, to);
	put(" [%d of", me == MPI_UNDEFINED ? -1 : me);
	put_ints(n, to);
	put("]");
	MPI_Group_free(&world);
}

static void groups(void)
{
	int evens[1][3] = {{0, size - 1, 2}}, first[2] = {size - 1, 0}, result;
	MPI_Group w, g[6];

	MPI_Comm_group(MPI_COMM_WORLD, &w);
	MPI_Group_range_incl(w, 1, evens, &g[0]);
	MPI_Group_range_excl(w, 1, evens, &g[1]);
	MPI_Group_incl(w, size > 1 ? 2 : 1, first, &g[2]);
	MPI_Group_union(g[0], g[2], &g[3]);
	MPI_Group_intersection(g[3], g[1], &g[4]);
	MPI_Group_difference(w, g[2], &g[5]);
	pending();
	for (int i = 0; i < 6; i++) {
		put_group(g[i]);
		MPI_Group_compare(w, g[i], &result);
		put(" %d", result);
		if (g[i] != MPI_GROUP_EMPTY)
			MPI_Group_free(&g[i]);
	}
	MPI_Group_free(&w);
}

static void put_comm(MPI_Comm c)
{
	int me = -1, n = -1, result = -1, sum = -1, inter;

	if (c == MPI_COMM_NULL) {
		put(" null");
		return;
	}
	MPI_Comm_rank(c, &me);
	MPI_Comm_size(c, &n);
	MPI_Comm_test_inter(c, &inter);
	MPI_Comm_compare(MPI_COMM_WORLD, c, &result);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, c);
	put(" %d/%d inter %d like %d sum %d", me, n, inter, result, sum);
	MPI_Comm_free(&c);
}

static void making(void)
{
	MPI_Group w, some;
	MPI_Comm c;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	put_comm(c);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? rank % 2 : MPI_UNDEFINED, -rank, &c);
	pending();
	put_comm(c);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c);
	put_comm(c);
	MPI_Comm_group(MPI_COMM_WORLD, &w);
	MPI_Group_excl(w, size > 1, (int[]){0}, &some);
	MPI_Comm_create(MPI_COMM_WORLD, some, &c);
	put_comm(c);
	c = MPI_COMM_NULL;
	if (rank || size == 1)
		MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &c);
	put_comm(c);
	MPI_Group_free(&some);
	MPI_Group_free(&w);
}

static void inter(void)
{
	MPI_Comm half, both = MPI_COMM_NULL, merged;
	int side = rank % 2, n = 0;

	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	if (size > 1) {
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 3, &both);
		pending();
		MPI_Comm_remote_size(both, &n);
		put(" %d", n);
		MPI_Intercomm_merge(both, side, &merged);
		put_comm(merged);
	}
	put_comm(both);
	MPI_Comm_free(&half);
}

static int copied, deleted;

static int copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
	(void)c, (void)key, (void)extra;
	copied++;
	*flag = (long)in % 2;
	*(long *)out = (long)in + 10;
	return MPI_SUCCESS;
}

static int forget(MPI_Comm c, int key, void *value, void *extra)
{
	(void)c, (void)key, (void)extra;
	deleted += (int)(long)value;
	return MPI_SUCCESS;
}

static void attributes(void)
{
	int key[2], flag, *bound;
	MPI_Comm c;
	long v = 0;

	copied = deleted = 0;
	for (int i = 0; i < 2; i++) {
		MPI_Comm_create_keyval(copy, forget, &key[i], NULL);
		MPI_Comm_set_attr(MPI_COMM_WORLD, key[i], (void *)(long)(1 + i));
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	pending();
	for (int i = 0; i < 2; i++) {
		MPI_Comm_get_attr(c, key[i], &v, &flag);
		put(" %d %ld", flag, flag ? v : 0);
		MPI_Comm_delete_attr(MPI_COMM_WORLD, key[i]);
		MPI_Comm_free_keyval(&key[i]);
	}
	MPI_Comm_free(&c);
	put(" %d %d %d", copied, deleted, key[0] == MPI_KEYVAL_INVALID);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &bound, &flag);
	put(" %d", flag);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
	put(" %d %d", flag, *bound >= 32767);
}

static void names(void)
{
	char name[MPI_MAX_OBJECT_NAME];
	MPI_Comm c;
	int n;

	MPI_Comm_get_name(MPI_COMM_WORLD, name, &n);
	put(" %s %d", name, n);
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_name(c, "a name");
	pending();
	MPI_Comm_get_name(c, name, &n);
	put(" %s %d", name, n);
	MPI_Comm_free(&c);
}

static void message_in(MPI_Comm c)
{
	int me, n, in = -1;

	MPI_Comm_rank(c, &me);
	MPI_Comm_size(c, &n);
	MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 1, &in, 1, MPI_INT, (me + n - 1) % n, 1, c,
		     MPI_STATUS_IGNORE);
	put(" %d", in);
}

/* By the hundred, beside messages; the last KEPT are alive at any time. */
static void many(void)
{
	static char out[100000], in[100000];
	MPI_Comm made[KEPT];
	MPI_Request r[MANY], ring[2];
	int n = 0;

	for (int i = 0; i < KEPT; i++)
		made[i] = MPI_COMM_NULL;
	for (int turn = 0; turn < 8; turn++) {
		MPI_Irecv(in, sizeof(in), MPI_CHAR, left, 7, MPI_COMM_WORLD, &ring[0]);
		MPI_Isend(out, sizeof(out), MPI_CHAR, right, 7, MPI_COMM_WORLD, &ring[1]);
		for (int i = 0; i < MANY; i++, n++) {
			MPI_Comm *c = &made[n % KEPT];

			if (*c != MPI_COMM_NULL)
				MPI_Comm_free(c);
			MPI_Comm_idup(MPI_COMM_WORLD, c, &r[i]);
		}
		MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
		message_in(made[(n - 1) % KEPT]);
		if (made[n % KEPT] != MPI_COMM_NULL)
			MPI_Comm_free(&made[n % KEPT]);
		MPI_Comm_dup(made[(n - 1) % KEPT], &made[n % KEPT]);
		message_in(made[n++ % KEPT]);
		MPI_Waitall(2, ring, MPI_STATUSES_IGNORE);
	}
	for (int i = 0; i < KEPT; i++)
		if (made[i] != MPI_COMM_NULL)
			MPI_Comm_free(&made[i]);
}

const struct claim communicators[] = {
	{"operations on groups", groups},
	{"dup, split and create", making},
	{"intercommunicators", inter},
	{"attributes are copied and deleted", attributes},
	{"names", names},
	{"communicators by the hundred beside messages", many},
	{NULL, NULL},
};
