/* SPDX-License-Identifier: Apache-2.0
 * The gate, with threads that enter and leave but call no library. */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/inside/gate.h"
#include "test/support/tap.h"

#define THREADS 4
#define ROUNDS 300

static _Atomic bool stop;
static _Atomic uint32_t loads;
static _Atomic int inside;
static _Atomic uint64_t passed, parks;

static void load(void)
{
	atomic_fetch_add(&loads, 1);
}

const struct gck_gate_owner gck_gate_owner = {.admit = load};

static void nap(long us)
{
	struct timespec t = {0, us * 1000};

	nanosleep(&t, NULL);
}

static void nested(void)
{
	gck_gate_enter(__func__, 0);
	gck_gate_park_if_closed(); /* does nothing in a call within a call */
	gck_gate_leave();
}

/* Makes calls with a nested call and a wait that may park. */
static void *worker(void *arg)
{
	while (!atomic_load(&stop)) {
		gck_gate_enter("MPI_Barrier", 0);
		atomic_fetch_add(&inside, 1);
		nested();
		atomic_fetch_sub(&inside, 1);
		if (gck_gate_park_if_closed())
			atomic_fetch_add(&parks, 1);
		atomic_fetch_add(&inside, 1);
		atomic_fetch_add(&passed, 1);
		atomic_fetch_sub(&inside, 1);
		gck_gate_leave();
	}
	return arg;
}

/* A thread that comes to the closed gate shows as inside until it parks. */
static bool close_and_look(void)
{
	uint64_t before;
	bool good;

	gck_gate_close();
	good = gck_gate_wait_empty(2000);
	before = atomic_load(&passed);
	good = good && atomic_load(&inside) == 0;
	nap(200);
	good = good && atomic_load(&passed) == before && atomic_load(&inside) == 0;
	good = good && gck_gate_wait_empty(2000);
	gck_gate_open();
	return good;
}

static void many_rounds(void)
{
	pthread_t threads[THREADS];
	int good = 0;
	uint64_t before;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	while (atomic_load(&passed) < THREADS)
		nap(100);
	for (int i = 0; i < ROUNDS; i++) {
		good += close_and_look();
		nap(i % 7 * 10);
	}
	is_int(good, ROUNDS, "while the gate is closed and empty, no thread is inside or enters");
	ok(atomic_load(&parks) > 0, "threads parked in the middle of calls");
	before = atomic_load(&passed);
	nap(20000);
	ok(atomic_load(&passed) > before, "threads continue when it opens");
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(atomic_load(&loads), THREADS, "the first call of each thread loads the library");
}

static void *stays(void *arg)
{
	gck_gate_enter("cuStreamSynchronize", 0x1234);
	while (!atomic_load(&stop))
		nap(100);
	gck_gate_leave();
	return arg;
}

static void one_stays(void)
{
	struct gck_gate_place where;
	pthread_t thread;

	atomic_store(&stop, false);
	pthread_create(&thread, NULL, stays, NULL);
	while (!gck_gate_where(&where))
		nap(100);
	is_str(where.function, "cuStreamSynchronize",
	       "the function of a thread inside is reported");
	is_int((long long)where.object, 0x1234, "the object of its call is reported");
	gck_gate_close();
	ok(!gck_gate_wait_empty(30), "a gate with a thread inside does not become empty");
	ok(!gck_gate_empty(), "a gate with a thread inside is not empty");
	atomic_store(&stop, true);
	ok(gck_gate_wait_empty(2000), "the gate is empty when the thread has left");
	ok(!gck_gate_where(&where), "an empty gate reports no thread");
	gck_gate_open();
	pthread_join(thread, NULL);
}

static void mpi_thread(void)
{
	gck_gate_enter(__func__, 0);
	gck_gate_leave();
	gck_gate_self->passes = true;
	gck_gate_close();
	gck_gate_enter(__func__, 0);
	ok(gck_gate_empty(), "the stand-in's thread passes a closed gate and is not counted");
	ok(!gck_gate_park_if_closed(), "the stand-in's thread does not park");
	gck_gate_leave();
	gck_gate_open();
}

int main(void)
{
	many_rounds();
	one_stays();
	mpi_thread();
	return tap_done();
}
