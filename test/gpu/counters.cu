/* SPDX-License-Identifier: Apache-2.0
 * A program for gpu_lineage: `counters ROUNDS MIB`. In every 64 KiB of its managed memory a CPU
 * thread counts in one page all the time, and kernels count in others. When a kernel or a copy
 * touches these, the driver tends to migrate the CPU's page with them. The last line reports
 * whether an increment was lost. */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 65536     /* the driver migrates this much at a time, by default */
#define PAGE 4096
#define PART (64 * MIB) /* an arena of the stand-in's */
#define PARTS 64

static char *parts[PARTS];
static size_t nparts, units;
static struct {
	volatile bool stop;
	volatile unsigned rounds;
} cpu;

/* The CPU counts in the first page, the GPU in every second one from the third on. */
__global__ static void count_too(char *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (int page = 2; i < n && page < UNIT / PAGE; page += 2)
		++*(unsigned *)(p + i * UNIT + page * PAGE);
}

static volatile unsigned *counter(size_t unit, int page)
{
	return (volatile unsigned *)(parts[unit / (PART / UNIT)] + unit % (PART / UNIT) * UNIT +
				     page * PAGE);
}

static void *count(void *)
{
	while (!cpu.stop) {
		for (size_t i = 0; i < units; i++)
			++*counter(i, 0);
		cpu.rounds++;
	}
	return NULL;
}

static size_t wrong(unsigned launches)
{
	size_t n = 0;

	for (size_t i = 0; i < units; i++) {
		n += *counter(i, 0) != cpu.rounds;
		for (int page = 2; page < UNIT / PAGE; page += 2)
			n += *counter(i, page) != launches;
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	pthread_t thread;

	nparts = argc > 2 ? strtoul(argv[2], NULL, 10) * MIB / PART : 0;
	units = nparts * (PART / UNIT);
	if (!rounds || !nparts || nparts > PARTS)
		return 2;
	gpu_init();
	for (size_t i = 0; i < nparts; i++) {
		MUST(cudaMallocManaged((void **)&parts[i], PART));
		memset(parts[i], 0, PART);
	}
	CHECK(pthread_create(&thread, NULL, count, NULL) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		for (size_t k = 0; k < nparts; k++)
			count_too<<<(PART / UNIT + 255) / 256, 256>>>(parts[k], PART / UNIT);
		MUST(cudaDeviceSynchronize());
		usleep(3000);
		if (i == 20)
			gpu_say_started();
	}
	cpu.stop = true;
	pthread_join(thread, NULL);
	printf("%zu units of %u bytes, %u launches: %zu counters are wrong\n", units, UNIT, rounds,
	       wrong(rounds));
	return 0;
}
