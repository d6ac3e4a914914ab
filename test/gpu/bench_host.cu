/* SPDX-License-Identifier: Apache-2.0
 * The parts of a drain to host memory, one by one: the first touch of memory by 1 and by 12 threads
 * (MADV_POPULATE_WRITE, as in shim/cuda/gate/prefault.c), 96 MiB of pinned memory that is new
 * or made of existing memory, and the copies, by 12 threads through pinned memory (as in
 * staging.c), into memory that was touched and memory that was not. */
#include "driver.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 12
#define PIECE (4 * MIB)
#define PINNED (2 * THREADS * PIECE)
#define SIZE (8 * GIB)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static char *host, *pinned;
static CUdeviceptr device;
static size_t next_piece;
static int number;

static char *new_memory(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	madvise(at, size, MADV_HUGEPAGE);
	return (char *)at;
}

static double run(int n, void *(*work)(void *))
{
	pthread_t threads[THREADS];
	double start = gpu_ms();

	next_piece = 0;
	number = 0;
	for (int i = 0; i < n; i++)
		CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return (gpu_ms() - start) / 1e3;
}

static void *touch(void *)
{
	size_t at;

	while ((at = __atomic_fetch_add(&next_piece, 2 * MIB, __ATOMIC_RELAXED)) < SIZE)
		CHECK(madvise(host + at, 2 * MIB, MADV_POPULATE_WRITE) == 0);
	return NULL;
}

/* A piece is copied from the device while the last one is copied from pinned memory. */
static void *copy(void *)
{
	char *mine = pinned + __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED) * 2 * PIECE,
	     *to[2] = {NULL, NULL};
	CUstream streams[2];
	size_t at;
	int k = 0;

	MUST(cuCtxSetCurrent(gpu_context));
	for (int i = 0; i < 2; i++)
		MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	do {
		at = __atomic_fetch_add(&next_piece, PIECE, __ATOMIC_RELAXED);
		MUST(cuStreamSynchronize(streams[k]));
		if (to[k])
			memcpy(to[k], mine + k * PIECE, PIECE);
		to[k] = at < SIZE ? host + at : NULL;
		if (to[k])
			MUST(cuMemcpyDtoHAsync(mine + k * PIECE, device + at, PIECE, streams[k]));
		k ^= 1;
	} while (to[0] || to[1]);
	return NULL;
}

static void rate(const char *name, double s)
{
	gpu_figure(name, (double)SIZE / s / 1e9, "GB/s");
}

static void with_new_memory(const char *name, int n, void *(*work)(void *))
{
	host = new_memory(SIZE);
	rate(name, run(n, work));
	munmap(host, SIZE);
}

static void pin(void)
{
	char *warm = new_memory(PINNED);
	double start = gpu_ms();

	MUST(cuMemHostAlloc((void **)&pinned, PINNED, CU_MEMHOSTALLOC_PORTABLE));
	gpu_figure("pin_new_96_mib", gpu_ms() - start, "ms");
	start = gpu_ms();
	MUST(cuMemFreeHost(pinned));
	gpu_figure("unpin_new_96_mib", gpu_ms() - start, "ms");
	CHECK(madvise(warm, PINNED, MADV_POPULATE_WRITE) == 0);
	start = gpu_ms();
	MUST(cuMemHostRegister(warm, PINNED, CU_MEMHOSTREGISTER_PORTABLE));
	gpu_figure("pin_ready_96_mib", gpu_ms() - start, "ms");
	start = gpu_ms();
	MUST(cuMemHostUnregister(warm));
	gpu_figure("unpin_ready_96_mib", gpu_ms() - start, "ms");
	MUST(cuMemHostRegister(warm, PINNED, CU_MEMHOSTREGISTER_PORTABLE));
	pinned = warm;
}

int main(void)
{
	gpu_init();
	MUST(cuMemAlloc(&device, SIZE));
	MUST(cuMemsetD8(device, 1, SIZE));
	MUST(cuCtxSynchronize());
	with_new_memory("touch_1_thread", 1, touch);
	with_new_memory("touch_12_threads", THREADS, touch);
	with_new_memory("touch_12_threads_again", THREADS, touch); /* the host has it now */
	pin();
	with_new_memory("host_copy_to_new", THREADS, copy);
	host = new_memory(SIZE);
	run(THREADS, touch);
	rate("host_copy_to_ready", run(THREADS, copy));
	return 0;
}
