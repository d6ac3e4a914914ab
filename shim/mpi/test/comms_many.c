/* SPDX-License-Identifier: Apache-2.0
 * Communicators of all kinds, made from each other at random; some are freed. */
#include "shim/mpi/test/comms.h"

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
