/* SPDX-License-Identifier: Apache-2.0
 * cuda_calls DRIVER: what a call takes through the stand-in and straight to the driver, in
 * nanoseconds: the fastest of many batches, in turns. With -DDRIVER: a driver that does nothing. */
#define _GNU_SOURCE
#include <cuda.h>

#ifdef DRIVER
CUresult cuStreamQuery(CUstream stream)
{
	return stream ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra)
{
	return f && gx + gy + gz + bx + by + bz + shared && stream && params && !extra ? 0 : 1;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 10000
#define BATCHES 300
#define THREADS 2

typedef CUresult query_fn(CUstream);
typedef CUresult launch_fn(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			   unsigned, CUstream, void **, void **);

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double query(void *function)
{
	query_fn *volatile call = (query_fn *)function;
	double begin = now();

	for (int i = 0; i < CALLS; i++)
		call((CUstream)1);
	return (now() - begin) / CALLS;
}

static double launch(void *function)
{
	launch_fn *volatile call = (launch_fn *)function;
	void *params[1] = {NULL};
	double begin = now();

	for (int i = 0; i < CALLS; i++)
		call((CUfunction)params, 1, 1, 1, 32, 1, 1, 0, (CUstream)1, params, NULL);
	return (now() - begin) / CALLS;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* Both ways in turns. */
static void measure(const char *name, double (*run)(void *), void *through, void *straight)
{
	double with = 1e9, without = 1e9;

	for (int i = 0; i < BATCHES; i++) {
		with = least(with, run(through));
		without = least(without, run(straight));
	}
	printf("cuda_%s_plain %.2f ns\ncuda_%s_with %.2f ns\ncuda_%s_added %.2f ns\n", name, without,
	       name, with, name, with - without);
}

/* Threads that call at once do not slow each other: no cache line of the gate's is written. */
static void *one_of_many(void *function)
{
	double *best = malloc(sizeof *best);

	*best = 1e9;
	for (int i = 0; i < BATCHES; i++)
		*best = least(*best, query(function));
	return best;
}

static void threads(void *function)
{
	pthread_t thread[THREADS];
	double worst = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, one_of_many, function);
	for (int i = 0; i < THREADS; i++) {
		void *best;

		pthread_join(thread[i], &best);
		worst = *(double *)best > worst ? *(double *)best : worst;
	}
	printf("cuda_query_of_%d_threads %.2f ns\n", THREADS, worst);
}

int main(int argc, char **argv)
{
	void *standin = dlopen("libcuda.so.1", RTLD_NOW), *driver = dlopen(argv[argc - 1], RTLD_NOW);
	void *(*real)(void *, const char *);

	if (!standin || !driver || standin == driver) {
		fprintf(stderr, "cuda_calls: no stand-in, or no driver\n");
		return 2;
	}
	*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"); /* not the stand-in's */
	measure("query", query, dlsym(standin, "cuStreamQuery"),
		real(driver, "cuStreamQuery"));
	measure("launch", launch, dlsym(standin, "cuLaunchKernel"),
		real(driver, "cuLaunchKernel"));
	threads(dlsym(standin, "cuStreamQuery"));
	return 0;
}
#endif
