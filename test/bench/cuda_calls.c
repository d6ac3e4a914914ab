/* SPDX-License-Identifier: Apache-2.0
 * cuda_calls DRIVER: the nanoseconds of a call through the stand-in and of a direct call of the
 * driver (cuda_nothing.c): the fastest of many batches, in turns. */
#define _GNU_SOURCE
#include <cuda.h>
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

typedef CUresult allocate_fn(CUdeviceptr *, size_t, CUstream);
typedef CUresult free_fn(CUdeviceptr, CUstream);

struct pair {
	allocate_fn *allocate;
	free_fn *release;
	CUstream stream;
};

/* An allocation and its free, with memory of several sizes in use. */
static double in_order(void *functions)
{
	const struct pair *volatile f = functions;
	CUdeviceptr at[8];
	double begin = now();

	for (int i = 0; i < CALLS / 8; i++) {
		for (int k = 0; k < 8; k++)
			f->allocate(&at[k], (size_t)512 << 2 * k, f->stream);
		for (int k = 0; k < 8; k++)
			f->release(at[k], f->stream);
	}
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
	printf("cuda_%s_plain %.2f ns\ncuda_%s_with %.2f ns\ncuda_%s_added %.2f ns\n", name,
	       without, name, with, name, with - without);
}

/* Threads that call at once do not slow each other: the gate writes no shared cache line. */
struct many {
	double (*run)(void *);
	void *of;
	double best;
};

static void *one_of_many(void *arg)
{
	struct many *m = arg;

	for (int i = 0; i < BATCHES; i++)
		m->best = least(m->best, m->run(m->of));
	return m;
}

/* of: each thread's argument */
static void threads(const char *name, double (*run)(void *), void *const *of)
{
	struct many m[THREADS];
	pthread_t thread[THREADS];
	double worst = 0;

	for (int i = 0; i < THREADS; i++) {
		m[i] = (struct many){run, of[i], 1e9};
		pthread_create(&thread[i], NULL, one_of_many, &m[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		worst = m[i].best > worst ? m[i].best : worst;
	}
	printf("cuda_%s_of_%d_threads %.2f ns\n", name, THREADS, worst);
}

int main(int argc, char **argv)
{
	void *standin = dlopen("libcuda.so.1", RTLD_NOW),
	     *driver = dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW);
	void *(*real)(void *, const char *);
	struct pair pairs[THREADS + 1];
	void *query_in;

	if (!standin || !driver || standin == driver) {
		fprintf(stderr, "cuda_calls: no stand-in, or no driver\n");
		return 2;
	}
	*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"); /* not the stand-in's */
	measure("query", query, dlsym(standin, "cuStreamQuery"),
		real(driver, "cuStreamQuery"));
	measure("launch", launch, dlsym(standin, "cuLaunchKernel"),
		real(driver, "cuLaunchKernel"));
	query_in = dlsym(standin, "cuStreamQuery");
	threads("query", query, (void *[]){query_in, query_in});
	for (int i = 0; i < THREADS; i++)
		pairs[i] = (struct pair){(allocate_fn *)dlsym(standin, "cuMemAllocAsync"),
					 (free_fn *)dlsym(standin, "cuMemFreeAsync"),
					 (CUstream)(4096l * (i + 1))};
	pairs[THREADS] = (struct pair){(allocate_fn *)real(driver, "cuMemAllocAsync"),
				       (free_fn *)real(driver, "cuMemFreeAsync"), (CUstream)4096};
	measure("malloc_free_async", in_order, &pairs[0], &pairs[THREADS]);
	threads("malloc_free_async", in_order, (void *[]){&pairs[0], &pairs[1]});
	return 0;
}
