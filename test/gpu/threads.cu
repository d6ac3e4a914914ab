/* SPDX-License-Identifier: Apache-2.0
 * threads ROUNDS THREADS MS: each thread allocates, fills, launches, copies and frees memory of odd
 * sizes without a pause, on a stream of its own, and checks each word before it frees it. Every 64
 * rounds its kernel waits for some milliseconds for a flag that the thread sets; the first thread's
 * kernel waits once for MS milliseconds. The last line depends on all data; a wrong word ends the
 * program. For gpu_storm; shim/cuda/test/storm_program.c is the same for the fake driver. */
#include "driver.h"
#include "words.h"

#include <pthread.h>
#include <stdlib.h>

#define HELD 24           /* allocations that a thread has at a time */
#define FLAG_EVERY 64     /* rounds */
#define FLAG_US 5000

struct piece {
	uint64_t *at;
	size_t n;
	uint64_t first;
};

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t seed, digest;
	cudaStream_t stream;
	volatile unsigned *flag;
	unsigned long long *wrong, *host_wrong;
	struct piece held[HELD];
};

static unsigned rounds, hold_ms;

/* Sums up the right words, so that the digest depends on them. */
__global__ static void look(const uint64_t *p, uint64_t first, size_t n, unsigned long long *wrong)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x) {
		if (p[i] != word(first + i))
			atomicAdd(wrong, 1);
		else
			atomicAdd(wrong + 1, p[i]);
	}
}

__global__ static void wait_flag(volatile unsigned *flag, unsigned until)
{
	while (*flag != until)
		;
}

static uint64_t next(struct worker *w)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed;
}

static void check_and_free(struct worker *w, struct piece *p)
{
	MUST(cudaMemsetAsync(w->wrong, 0, 2 * sizeof *w->wrong, w->stream));
	look<<<64, 256, 0, w->stream>>>(p->at, p->first, p->n, w->wrong);
	MUST(cudaMemcpyAsync(w->host_wrong, w->wrong, 2 * sizeof *w->wrong, cudaMemcpyDeviceToHost,
			     w->stream));
	MUST(cudaStreamSynchronize(w->stream));
	CHECK(w->host_wrong[0] == 0);
	w->digest = w->digest * 31 + w->host_wrong[1];
	MUST(cudaFree(p->at));
	p->at = NULL;
}

static void allocate(struct worker *w, struct piece *p)
{
	p->n = 1 + next(w) % (next(w) % 4 ? 4096 : 1 << 18);
	p->first = next(w);
	MUST(cudaMalloc(&p->at, p->n * sizeof *p->at));
	fill<<<64, 256, 0, w->stream>>>(p->at, p->first, p->n);
}

/* A checkpoint that is ordered now must wait until this ends. */
static void wait_for_host(struct worker *w, unsigned round)
{
	bool longer = w->number == 0 && round == rounds / 4 / FLAG_EVERY * FLAG_EVERY;

	wait_flag<<<1, 1, 0, w->stream>>>(w->flag, round);
	usleep(longer ? hold_ms * 1000 : FLAG_US);
	*w->flag = round;
}

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;

	for (unsigned round = 1; round <= rounds; round++) {
		struct piece *p = &w->held[next(w) % HELD];

		if (p->at)
			check_and_free(w, p);
		else
			allocate(w, p);
		if (round % FLAG_EVERY == 0)
			wait_for_host(w, round);
	}
	for (int i = 0; i < HELD; i++) {
		if (w->held[i].at)
			check_and_free(w, &w->held[i]);
	}
	return NULL;
}

static void begin(struct worker *w, unsigned number)
{
	w->number = number;
	w->seed = (number + 1) * 0x9e3779b97f4a7c15ull;
	MUST(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
	MUST(cudaHostAlloc((void **)&w->flag, sizeof *w->flag, 0));
	*w->flag = 0;
	MUST(cudaHostAlloc((void **)&w->host_wrong, 2 * sizeof *w->host_wrong, 0));
	MUST(cudaMalloc(&w->wrong, 2 * sizeof *w->wrong));
	pthread_create(&w->thread, NULL, work, w);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct worker *v = (struct worker *)calloc(n + 1, sizeof *v);
	uint64_t digest = 0;

	if (!n)
		return 2;
	rounds = (unsigned)strtoul(argv[1], NULL, 10);
	hold_ms = (unsigned)strtoul(argv[3], NULL, 10);
	gpu_init();
	for (unsigned i = 0; i < n; i++)
		begin(&v[i], i);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(v[i].thread, NULL);
		digest = digest * 31 + v[i].digest;
	}
	printf("threads %llu\n", (unsigned long long)digest);
	return 0;
}
