/* SPDX-License-Identifier: Apache-2.0
 * MPI ranks in pairs (0 and 1, 2 and 3, ...), each pair with a window of MPI_Win_allocate_shared
 * that both write. In each step a rank mixes a piece of its own part with one of the other's, and
 * now and then a number of all ranks. At the end each prints "rank R: HASH", of the pair's window.
 *   window STEPS PAUSE_US UNTIL   there is no pause any more once the file UNTIL exists */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS ((size_t)1 << 19) /* of a rank: 4 MiB, so that holes are looked for */
#define PIECE ((size_t)512)
#define MULTIPLIER 6364136223846793005ul

static int rank, of_pair;
static MPI_Comm pair;
static MPI_Win win;
static unsigned long *part[2]; /* by rank of the pair */

static void meet(void)
{
	MPI_Win_sync(win);
	MPI_Barrier(pair);
	MPI_Win_sync(win);
}

/* Where a step's piece begins; both ranks of a pair read all over the other's part. */
static size_t place(long step, int who)
{
	return ((size_t)step * 7919 + (size_t)who * 131) % (WORDS / PIECE) * PIECE;
}

static void mix(long step)
{
	const unsigned long *theirs = part[!of_pair] + place(step, 5);
	unsigned long *mine = part[of_pair] + place(step, of_pair), read[PIECE];

	memcpy(read, theirs, sizeof read);
	meet();
	for (size_t i = 0; i < PIECE; i++)
		mine[i] = mine[i] * MULTIPLIER + read[i] + (unsigned long)step + i;
	meet();
}

static void mix_all(void)
{
	unsigned long all;

	MPI_Allreduce(part[of_pair], &all, 1, MPI_UNSIGNED_LONG, MPI_BXOR, MPI_COMM_WORLD);
	part[of_pair][1] += all * MULTIPLIER + 1;
}

static unsigned long hash(void)
{
	unsigned long h = 1;

	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < WORDS; i++)
			h = (h ^ part[k][i]) * MULTIPLIER + 3;
	return h;
}

static int open_window(void)
{
	unsigned long *own;
	MPI_Aint size;
	int unit;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
	MPI_Comm_rank(pair, &of_pair);
	if (MPI_Win_allocate_shared(WORDS * sizeof *own, sizeof *own, MPI_INFO_NULL, pair, &own,
				    &win))
		return -1;
	for (int k = 0; k < 2; k++)
		MPI_Win_shared_query(win, k, &size, &unit, &part[k]);
	MPI_Win_lock_all(0, win);
	memset(own, rank + 1, WORDS / 2 * sizeof *own); /* the rest is not touched */
	meet();
	return own == part[of_pair] ? 0 : -1;
}

int main(int argc, char **argv)
{
	long steps = argc > 1 ? atol(argv[1]) : 0;
	int enough = 0;

	if (argc != 4)
		return 2;
	MPI_Init(&argc, &argv);
	if (open_window())
		return 1;
	for (long n = 1; n <= steps; n++) {
		mix(n);
		if (n % 16 == 0)
			mix_all();
		if (n % 50 == 0 && !rank)
			fprintf(stderr, "step %ld\n", n);
		enough = enough || access(argv[3], F_OK) == 0;
		if (!enough)
			usleep((useconds_t)atol(argv[2]));
	}
	meet();
	printf("rank %d: %lx\n", rank, hash());
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	MPI_Finalize();
	return 0;
}
