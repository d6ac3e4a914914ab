/* SPDX-License-Identifier: Apache-2.0
 * `gpu_random SEED [STEPS]`: a random program of the driver's functions, in three threads that take
 * turns. With gpu_engine.so preloaded the driver is loaded anew several times on its way. Its
 * output must be the same without. Programs whose seed is divisible by 4 also end contexts;
 * those of odd seeds have more of graphs.
 * `gpu_random ptx` prints the PTX of its kernels. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/random/ptx.h"
#include "test/gpu/random/random.h"

#define STEPS 300
#define STEPS_TO_RESTART 40 /* on average */

static const struct {
	void (*step)(void);
	unsigned weight;
} steps[] = {
	{context_step, 8}, {stream_step, 12}, {code_step, 24}, {memory_step, 24},
	{mapping_step, 8}, {pool_step, 8}, {array_step, 16}, {graph_step, 32}, {invalid_step, 6},
	{ask_step, 3},
};

static bool graphs; /* half of all steps are those of graphs */
static sem_t begin[THREADS], ended;
static void (*task)(void);
static int (*restart)(void); /* NULL: it goes on with the one driver */

/* ---- threads that take turns ----------------------------------------------------------------- */

static void *serve(void *mine)
{
	for (;;) {
		while (sem_wait(mine))
			;
		if (!task)
			return NULL;
		task();
		sem_post(&ended);
	}
}

static void run_in(int which, void (*what)(void))
{
	thread = which;
	task = what;
	sem_post(&begin[which]);
	while (sem_wait(&ended))
		;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void (*any_step(void))(void)
{
	unsigned all = 0, n;
	size_t i = 0;

	for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
		all += steps[k].weight;
	for (n = draw(all); n >= steps[i].weight; i++)
		n -= steps[i].weight;
	return steps[i].step;
}

/* Most is done in a context: seldom without one. */
static void take_step(void)
{
	void (*step)(void) = graphs && draw(2) ? graph_step : any_step();
	bool in = false;

	settle();
	if (current() < 0 && step != context_step && draw(8))
		in = be_in(any(CONTEXT));
	step();
	if (in) {
		settle();
		be_back();
	}
}

static void tidy(void)
{
	tidy_textures();
	tidy_graphs();
}

static void restart_at(unsigned step)
{
	if (draw(8))
		run_in(0, tidy);
	if (!restart)
		return;
	fprintf(stderr, "# restart before step %u\n", step);
	if (restart() < -1)
		exit(2);
}

static void begin_all(void)
{
	begin_contexts();
	begin_code();
	for (int i = 0; i < 4; i++) {
		stream_step();
		memory_step();
	}
}

static void look_at_all(void)
{
	settle();
	code_digests();
	memory_digests();
	array_digests();
	say_calls();
}

static void end_all(void)
{
	end_graphs();
	for (int i = 0; i < n_objects; i++) {
		if (is(i, CONTEXT))
			end_textures_of(i);
	}
	end_memory();
}

static void run(unsigned n)
{
	for (int i = THREADS; i-- > 0;)
		run_in(i, i ? begin_contexts : begin_all);
	for (unsigned i = 0; i < n; i++) {
		say("- %u", i);
		if (draw(STEPS_TO_RESTART) == 0)
			restart_at(i);
		run_in((int)draw(THREADS), take_step);
	}
	run_in(0, look_at_all);
	run_in(0, end_all);
	for (int i = 0; i < THREADS; i++)
		run_in(i, end_threads_contexts);
	run_in(0, end_contexts);
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t ids[THREADS];

	if (argc > 1 && !strcmp(argv[1], "ptx"))
		return puts(ptx_first) < 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	*(void **)&restart = dlsym(RTLD_DEFAULT, "gpu_engine_restart");
	choose_by(seed);
	ends_contexts = seed % 4 == 0;
	graphs = seed % 2;
	if (DO(cuInit, 0))
		return 1;
	sem_init(&ended, 0, 0);
	for (int i = 0; i < THREADS; i++) {
		sem_init(&begin[i], 0, 0);
		if (pthread_create(&ids[i], NULL, serve, &begin[i]))
			return 1;
	}
	run(argc > 2 ? (unsigned)atoi(argv[2]) : STEPS);
	task = NULL;
	for (int i = 0; i < THREADS; i++) {
		sem_post(&begin[i]);
		pthread_join(ids[i], NULL);
	}
	return 0;
}
