/* SPDX-License-Identifier: Apache-2.0
 * cuda_threads ROUNDS THREADS MS, on the fake driver: each thread allocates, fills, launches,
 * copies and frees on its own stream, and checks the contents of each allocation before it frees
 * it. From time to time its kernel waits a few milliseconds for a flag that the thread sets; the
 * first thread's kernel waits MS milliseconds once. The last line depends on all data. The
 * program does not pause while $GPUCKPT_TEST_HURRY exists. test/gpu/threads.cu is the same for a
 * GPU. */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/kernels.h"

#define HELD 12         /* allocations that a thread has at a time */
#define WORDS 65536     /* the most in an allocation */
#define FLAG_EVERY 64   /* rounds */
#define FLAG_US 5000
#define PAUSE_EVERY 16  /* so that the program runs longer and leaves CPU time to others */
#define PAUSE_US 20000

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t seed, digest;
	CUstream stream;
	uint64_t *flag;
	CUfunction add, wait;
	struct piece {
		CUdeviceptr at;
		size_t n;
		uint32_t value;
	} held[HELD];
};

static unsigned rounds, hold_ms;
static const char *hurry;
static CUcontext context;

#define CHECK(call) check(call, #call)

static void check(int rc, const char *call)
{
	if (!rc)
		return;
	printf("%s: %d\n", call, rc);
	fflush(stdout);
	_exit(3);
}

static uint64_t next(struct worker *w)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed;
}

static bool in_a_hurry(void)
{
	return hurry && access(hurry, F_OK) == 0;
}

static void launch(const struct worker *w, CUfunction f, CUdeviceptr at, uint64_t value)
{
	void *params[] = {&at, &value};

	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, w->stream, params, NULL));
}

static void take(struct worker *w, struct piece *p)
{
	p->n = 2 + next(w) % (next(w) % 4 ? 512 : WORDS - 2);
	p->value = (uint32_t)next(w);
	CHECK(cuMemAlloc(&p->at, p->n * sizeof p->value));
	CHECK(cuMemsetD32Async(p->at, p->value, p->n, w->stream));
	launch(w, w->add, p->at, 7);
}

static void give(struct worker *w, struct piece *p)
{
	static __thread uint32_t words[WORDS];
	uint64_t first = p->value + ((uint64_t)p->value << 32) + 7, now, wrong = 0;

	CHECK(cuMemcpyDtoHAsync(words, p->at, p->n * sizeof *words, w->stream));
	CHECK(cuStreamSynchronize(w->stream));
	for (size_t i = 2; i < p->n; i++)
		wrong += words[i] != p->value;
	memcpy(&now, words, sizeof now);
	CHECK(wrong || now != first);
	w->digest = w->digest * 31 + first + words[p->n - 1];
	CHECK(cuMemFree(p->at));
	p->at = 0;
}

/* A checkpoint that is ordered now must wait until this ends. */
static void wait_for_host(struct worker *w, unsigned round)
{
	bool longer = w->number == 0 && round == rounds / 4 / FLAG_EVERY * FLAG_EVERY;

	*w->flag = 0;
	launch(w, w->wait, (uintptr_t)w->flag, 0);
	usleep(longer && !in_a_hurry() ? hold_ms * 1000 : FLAG_US);
	*w->flag = 1;
	CHECK(cuStreamSynchronize(w->stream));
}

static void *work(void *arg)
{
	struct worker *w = arg;

	CHECK(cuCtxSetCurrent(context));
	for (unsigned round = 1; round <= rounds; round++) {
		struct piece *p = &w->held[next(w) % HELD];

		if (p->at)
			give(w, p);
		else
			take(w, p);
		if (round % FLAG_EVERY == 0)
			wait_for_host(w, round);
		if (round % PAUSE_EVERY == 0 && !in_a_hurry())
			usleep(PAUSE_US);
	}
	for (int i = 0; i < HELD; i++) {
		if (w->held[i].at)
			give(w, &w->held[i]);
	}
	return NULL;
}

static void begin(struct worker *w, unsigned number, CUmodule module)
{
	w->number = number;
	w->seed = (number + 1) * 0x9e3779b97f4a7c15ull;
	CHECK(cuModuleGetFunction(&w->add, module, "add"));
	CHECK(cuModuleGetFunction(&w->wait, module, "wait_flag"));
	CHECK(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAllocHost((void **)&w->flag, sizeof *w->flag));
	CHECK(pthread_create(&w->thread, NULL, work, w));
}

int main(int argc, char **argv)
{
	unsigned n = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
	struct worker *v = calloc(n + 1, sizeof *v);
	uint64_t digest = 0;
	CUmodule module;

	if (!n)
		return 2;
	rounds = (unsigned)atoi(argv[1]);
	hold_ms = (unsigned)atoi(argv[3]);
	hurry = getenv("GPUCKPT_TEST_HURRY");
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ""));
	for (unsigned i = 0; i < n; i++)
		begin(&v[i], i, module);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(v[i].thread, NULL);
		digest = digest * 31 + v[i].digest;
	}
	printf("threads %llu\n", (unsigned long long)digest);
	return 0;
}
