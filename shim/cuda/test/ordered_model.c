/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/test/kernel.h"
#include "shim/cuda/test/ordered_model.h"

#define PLACES 48
#define STEP 512 /* bytes: the smallest allocation */

enum { APART, OTHER, BLOCKING, LEGACY, OWN, STREAMS };

static CUstream streams[STREAMS];
static CUfunction fill, check, nap;
static CUmemoryPool pools[2]; /* the device's, and one that keeps freed memory */
static CUevent event;
static const char *wrong;
static _Atomic int overwritten;

static struct place {
	CUdeviceptr base;
	size_t size;
	uint64_t tag;
	int stream; /* the stream that uses it */
	bool plain; /* of cuMemAlloc */
} places[PLACES];

/* ---- kernels -------------------------------------------------------------------------------- */

static uint64_t arg(void **params, int i)
{
	return *(uint64_t *)params[i];
}

/* (address, bytes, tag) */
KERNEL(ordered_fill, 3)
{
	(void)grid;
	for (uint64_t i = 0; i + 8 <= arg(params, 1); i += STEP)
		*(volatile uint64_t *)(uintptr_t)(arg(params, 0) + i) = arg(params, 2);
}

KERNEL(ordered_check, 3)
{
	(void)grid;
	for (uint64_t i = 0; i + 8 <= arg(params, 1); i += STEP) {
		if (*(volatile uint64_t *)(uintptr_t)(arg(params, 0) + i) != arg(params, 2)) {
			overwritten++;
			return;
		}
	}
}

/* (microseconds) */
KERNEL(ordered_nap, 1)
{
	(void)grid;
	nanosleep(&(struct timespec){.tv_nsec = (long)arg(params, 0) * 1000}, NULL);
}

static void expect(bool good, const char *what)
{
	if (!good && !wrong)
		wrong = what;
}

static void launch(CUfunction f, const struct place *p, int stream)
{
	uint64_t base = p->base, size = p->size, tag = p->tag;
	void *params[] = {&base, &size, &tag};

	expect(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, streams[stream], params, NULL) == 0,
	       "a kernel");
}

/* Makes the stream fall behind the host and the other streams. */
static void delay(int stream)
{
	uint64_t us = (uint64_t)rand() % 400;
	void *params[] = {&us};

	if (rand() % 2)
		expect(cuLaunchKernel(nap, 1, 1, 1, 1, 1, 1, 0, streams[stream], params, NULL) == 0,
		       "a delay");
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void look(const struct place *p)
{
	CUmemoryPool pool = NULL;
	CUcontext context = NULL;
	CUdeviceptr base = 0;
	size_t size = 0;

	expect(cuMemGetAddressRange_v2(&base, &size, p->base + p->size - 1) == 0 &&
		       base == p->base && size == p->size,
	       "an address's range");
	expect(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p->base) == 0 &&
	       (p->plain ? !pool : pool == pools[0] || pool == pools[1]), "its pool");
	expect(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p->base) == 0 &&
	       !context == !p->plain, "its context, or none");
	for (int i = 0; i < PLACES; i++)
		expect(&places[i] == p || !places[i].base || p->base + p->size <= places[i].base ||
		       places[i].base + places[i].size <= p->base, "allocations do not overlap");
}

static size_t some_size(void)
{
	switch (rand() % 6) {
	case 0:
		return 8 + (size_t)rand() % 1000;
	case 1:
		return (size_t)(1 + rand() % 8) << 20;
	case 2:
		return (size_t)4096 << rand() % 8; /* the same sizes repeatedly */
	default:
		return 8 + (size_t)rand() % 200000;
	}
}

static CUresult allocate(struct place *p)
{
	if (p->plain)
		return cuMemAlloc_v2(&p->base, p->size);
	if (rand() % 3 == 0)
		return cuMemAllocFromPoolAsync(&p->base, p->size, pools[1], streams[p->stream]);
	return p->stream == OWN ? cuMemAllocAsync_ptsz(&p->base, p->size, NULL)
				: cuMemAllocAsync(&p->base, p->size, streams[p->stream]);
}

static void take(struct place *p)
{
	CUresult rc;

	*p = (struct place){.size = some_size(),
			    .stream = rand() % STREAMS,
			    .plain = rand() % 16 == 0,
			    .tag = (uint64_t)rand()};
	rc = allocate(p);
	if (rc) {
		expect(rc == CUDA_ERROR_OUT_OF_MEMORY, "an allocation succeeds or finds no memory");
		p->base = 0;
		return;
	}
	look(p);
	delay(p->stream);
	launch(fill, p, p->stream);
}

/* Another stream uses it after this one, by an event or by a default stream's order. */
static void pass_on(struct place *p, int to)
{
	bool waits = (p->stream == LEGACY && (to == BLOCKING || to == OWN)) ||
		     (to == LEGACY && (p->stream == BLOCKING || p->stream == OWN));

	if (p->stream != to && (!waits || rand() % 2))
		expect(cuEventRecord(event, streams[p->stream]) == 0 &&
		       cuStreamWaitEvent(streams[to], event, 0) == 0,
		       "a stream waits for an event of another");
	p->stream = to;
}

static void use(struct place *p)
{
	pass_on(p, rand() % STREAMS);
	launch(check, p, p->stream);
	p->tag++;
	launch(fill, p, p->stream);
}

static void give(struct place *p)
{
	CUresult rc;

	delay(p->stream);
	launch(check, p, p->stream);
	if (rand() % 8) {
		if (rand() % 4 == 0)
			pass_on(p, rand() % STREAMS);
		rc = cuMemFreeAsync(p->base, streams[p->stream]);
	} else {
		expect(cuStreamSynchronize(streams[p->stream]) == 0, "a stream finishes its work");
		rc = cuMemFree_v2(p->base);
	}
	expect(rc == 0, "it is freed");
	p->base = 0;
}

/* Work on the destroyed stream is not done yet. */
static void replace_stream(void)
{
	for (int i = 0; i < PLACES; i++) {
		if (places[i].base && places[i].stream == OTHER)
			pass_on(&places[i], APART);
	}
	expect(cuStreamDestroy_v2(streams[OTHER]) == 0 &&
	       cuStreamCreate(&streams[OTHER], CU_STREAM_NON_BLOCKING) == 0,
	       "a stream is replaced");
}

/* In a capture memory belongs to the graph; other streams continue. */
static void capture(void)
{
	struct place *p = &places[rand() % PLACES];
	CUdeviceptr at = 0;
	CUgraph graph;
	CUresult rc;

	expect(cuStreamBeginCapture_v2(streams[APART], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0,
	       "a capture");
	if (!p->base &&
	    allocate((*p = (struct place){.size = some_size(), .stream = BLOCKING}, p)) == 0)
		launch(fill, p, BLOCKING);
	rc = cuMemAllocAsync(&at, 4096, streams[APART]);
	expect(rc ? rc == CUDA_ERROR_OUT_OF_MEMORY : cuMemFreeAsync(at, streams[APART]) == 0,
	       "memory in a capture");
	if (p->base && !p->plain)
		expect(cuMemFreeAsync(p->base, streams[APART]) == CUDA_ERROR_INVALID_VALUE,
		       "memory of another stream is not freed in a capture");
	expect(cuStreamEndCapture(streams[APART], &graph) == 0 && cuGraphDestroy(graph) == 0,
	       "its end");
	expect(rc || cuMemFree_v2(at) == 0, "the graph's memory");
}

static void step(void)
{
	struct place *p = &places[rand() % PLACES];
	int what = rand() % 200;

	if (what == 0)
		replace_stream();
	else if (what == 1)
		capture();
	else if (what == 2)
		expect(cuMemPoolTrimTo(pools[rand() % 2], 1 << 20) == 0, "a pool is trimmed");
	else if (what < 10)
		expect(cuStreamSynchronize(streams[rand() % STREAMS]) == 0,
		       "a stream finishes its work");
	else if (!p->base)
		take(p);
	else if (what % 3)
		give(p);
	else
		use(p);
}

/* ---- the model ------------------------------------------------------------------------------ */

const char *ordered_begin(CUmodule module, unsigned int seed)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t all = UINT64_MAX;

	srand(seed);
	streams[LEGACY] = CU_STREAM_LEGACY;
	streams[OWN] = CU_STREAM_PER_THREAD;
	expect(!cuStreamCreate(&streams[APART], CU_STREAM_NON_BLOCKING) &&
		       !cuStreamCreate(&streams[OTHER], CU_STREAM_NON_BLOCKING) &&
		       !cuStreamCreate(&streams[BLOCKING], 0) &&
		       !cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
	       "streams");
	expect(!cuModuleGetFunction(&fill, module, "ordered_fill") &&
	       !cuModuleGetFunction(&check, module, "ordered_check") &&
	       !cuModuleGetFunction(&nap, module, "ordered_nap"), "kernels");
	expect(!cuDeviceGetDefaultMemPool(&pools[0], 0) && !cuMemPoolCreate(&pools[1], &props) &&
	       !cuMemPoolSetAttribute(pools[1], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), "pools");
	return wrong;
}

const char *ordered_steps(int n)
{
	for (int i = 0; !wrong && i < n; i++) {
		step();
		expect(!overwritten, "no memory is reused while a stream uses it");
	}
	return wrong;
}

const char *ordered_end(void)
{
	cuuint64_t used[2] = {1, 1};

	for (int i = 0; i < PLACES; i++) {
		if (places[i].base)
			give(&places[i]);
	}
	expect(cuCtxSynchronize() == 0, "all is done");
	expect(!overwritten, "no memory was reused while a stream used it");
	for (int i = 0; i < 2; i++)
		expect(cuMemPoolGetAttribute(pools[i], CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
					     &used[i]) == 0 &&
			       !used[i],
		       "a pool has no memory in use");
	return wrong;
}
