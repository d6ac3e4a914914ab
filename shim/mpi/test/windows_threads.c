// SPDX-License-Identifier: Apache-2.0
/* Threads that lock several targets of a window at the same time (MPI_THREAD_MULTIPLE). */
#include <pthread.h>

#include "shim/mpi/test/family.h"

#define THREADS 3
#define ROUNDS 40

static MPI_Win win;
static long counters[THREADS];

/* Each thread has its own counter in each rank. */
static void *count(void *arg)
{
	int mine = (int)(long)arg;

	for (int i = 0; i < ROUNDS; i++) {
		int target = (rank + mine) % size;
		long x = -1;

		IS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), MPI_SUCCESS);
		IS(MPI_Get(&x, 1, MPI_LONG, target, mine, 1, MPI_LONG, win), MPI_SUCCESS);
		IS(MPI_Win_flush(target, win), MPI_SUCCESS);
		x++;
		IS(MPI_Put(&x, 1, MPI_LONG, target, mine, 1, MPI_LONG, win), MPI_SUCCESS);
		IS(MPI_Win_unlock(target, win), MPI_SUCCESS);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t t[THREADS];

	IS(MPI_Win_create(counters, sizeof(counters), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
			  &win),
	   MPI_SUCCESS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, count, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < THREADS; i++)
		IS(counters[i], ROUNDS);
	IS(MPI_Win_free(&win), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	int level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	begin();
	IS(level, MPI_THREAD_MULTIPLE);
	family("locks taken by several threads", test_threads);
	return end();
}
