/* SPDX-License-Identifier: Apache-2.0
 * crowd THREADS TURNS MS: threads that meet at a barrier every turn. Each mixes its neighbour's
 * value of the last turn into its own, through a table with a mutex, thread-local state and
 * floating point, so that a lost register, TLS block or wakeup changes the sum. Deterministic. With
 * CROWD_UNTIL=FILE in the environment the last turn does not end before FILE exists. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned count, turns;
static struct timespec pause_time;
static const char *until; /* NULL: do not wait */
static uint64_t *now, *before;
static pthread_barrier_t barrier;
static pthread_mutex_t lock;
static uint64_t total;
static __thread uint64_t own;
static __thread double angle;

static void turn(unsigned me)
{
	uint64_t other = before[(me + 1) % count];

	for (unsigned i = 0; i < 1000; i++) {
		own = own * 6364136223846793005u + other + i;
		angle = sin(angle + (double)(own >> 40));
	}
	now[me] = own ^ (uint64_t)(angle * 1e15);
	pthread_mutex_lock(&lock);
	total += now[me];
	pthread_mutex_unlock(&lock);
}

static void *run(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	own = me + 1;
	for (unsigned t = 0; t < turns; t++) {
		turn(me);
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
			uint64_t *swap = now;

			now = before;
			before = swap;
			if (t % 50 == 0) {
				printf("turn %u %016" PRIx64 "\n", t, total);
				fflush(stdout);
			}
			do
				nanosleep(&pause_time, NULL);
			while (until && t + 1 == turns && access(until, F_OK));
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t recursive;
	pthread_t *threads;

	if (argc != 4) {
		fprintf(stderr, "usage: crowd THREADS TURNS MS\n");
		return 2;
	}
	until = getenv("CROWD_UNTIL");
	count = (unsigned)atoi(argv[1]);
	turns = (unsigned)atoi(argv[2]);
	pause_time.tv_nsec = atol(argv[3]) * 1000000;
	now = calloc(count, sizeof *now);
	before = calloc(count, sizeof *before);
	threads = calloc(count, sizeof *threads);
	if (!now || !before || !threads)
		return 1;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &recursive);
	pthread_barrier_init(&barrier, NULL, count);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i))
			return 1;
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("sum %016" PRIx64 "\n", total);
	return 0;
}
