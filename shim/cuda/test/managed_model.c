/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/managed_model.h"

#define PLACES 12
#define PAGE ((size_t)4096)
#define LARGE ((size_t)33 << 20)
#define COUNTERS 512

static struct place {
	CUdeviceptr base;
	size_t size;
	uint64_t first, last;                /* the contents of its first and last words */
	int read_mostly, preferred, used_by; /* advice for all its pages */
	int sent, rest;                      /* prefetched to: the first page, the others */
} places[PLACES];

static CUmodule module;
static const char *wrong;
static bool forgets;

static struct {
	pthread_t thread;
	volatile uint64_t *words, rounds;
	volatile bool stop;
} counter;

static void expect(bool good, const char *what)
{
	if (!good && !wrong)
		wrong = what;
}

static volatile uint64_t *word(const struct place *p, bool last)
{
	return (volatile uint64_t *)(uintptr_t)(last ? p->base + p->size - 8 : p->base);
}

static bool one_is_large(void)
{
	for (int i = 0; i < PLACES; i++) {
		if (places[i].base && places[i].size >= LARGE)
			return true;
	}
	return false;
}

/* One place in ten is large, but only one at a time: a checkpoint copies all of them. */
static size_t random_size(void)
{
	if (rand() % 10 == 0 && !one_is_large())
		return LARGE + (size_t)(rand() % 3) * PAGE;
	return (1 + (size_t)rand() % 30) * 8 * (rand() % 2 ? 1 : 1000);
}

static void take(struct place *p)
{
	*p = (struct place){.size = random_size(), .preferred = CU_DEVICE_INVALID,
			    .sent = CU_DEVICE_INVALID, .rest = CU_DEVICE_INVALID,
			    .used_by = CU_DEVICE_INVALID};
	expect(cuMemAllocManaged(&p->base, p->size, CU_MEM_ATTACH_GLOBAL) == 0, "it is there");
	for (int i = 0; i < PLACES; i++)
		expect(!places[i].base || &places[i] == p || p->base + p->size <= places[i].base ||
		       places[i].base + places[i].size <= p->base, "allocations do not overlap");
	*word(p, false) = p->first = (uint64_t)rand();
	*word(p, true) = p->last = p->size > 8 ? (uint64_t)rand() : p->first;
	p->first = *word(p, false);
}

static void gpu_adds(struct place *p)
{
	uint64_t at = p->base, value = (uint64_t)rand();
	void *params[] = {&at, &value};
	CUfunction f;

	expect(cuModuleGetFunction(&f, module, "add") == 0 &&
	       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 &&
	       cuCtxSynchronize() == 0, "a kernel uses it");
	p->first += value;
	if (p->size == 8)
		p->last = p->first;
}

static void cpu_writes(struct place *p)
{
	p->last += 3;
	*word(p, true) = p->last;
	if (p->size == 8)
		p->first = p->last;
}

/* Prefetches its first page to one place and the others, if any, to another. */
static CUresult send_in_two(const struct place *p, CUmemLocation first, CUmemLocation rest)
{
	CUdeviceptr at[] = {p->base, p->base + PAGE};
	size_t sizes[] = {p->size < PAGE ? p->size : PAGE, p->size - PAGE}, firsts[] = {0, 1};
	CUmemLocation to[] = {first, rest};
	size_t n = p->size > PAGE ? 2 : 1;

	return cuMemPrefetchBatchAsync(at, sizes, n, to, firsts, n, 0, CU_STREAM_PER_THREAD);
}

/* The function has another signature in the headers of CUDA 13 than in those of CUDA 12. */
static CUresult say(const struct place *p, CUmem_advise what)
{
	CUresult (*older)(CUdeviceptr, size_t, CUmem_advise, CUdevice);

	*(void **)&older = dlsym(RTLD_DEFAULT, "cuMemAdvise");
	return rand() % 2 ? older(p->base, p->size, what, 0)
			  : cuMemAdvise(p->base, p->size, what,
					(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE});
}

static CUresult send(const struct place *p, CUmemLocation to)
{
	CUresult (*older)(CUdeviceptr, size_t, CUdevice, CUstream);

	*(void **)&older = dlsym(RTLD_DEFAULT, "cuMemPrefetchAsync");
	return rand() % 2 ? older(p->base, p->size,
				  to.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : 0, NULL)
			  : cuMemPrefetchAsync(p->base, p->size, to, 0, NULL);
}

static void advise(struct place *p)
{
	const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			    host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	CUresult rc = CUDA_SUCCESS;
	bool set = rand() % 2;

	switch (rand() % 5) {
	case 0:
		rc = say(p, set ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY);
		p->read_mostly = set;
		break;
	case 1:
		rc = say(p, set ? CU_MEM_ADVISE_SET_PREFERRED_LOCATION
				: CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
		p->preferred = set ? 0 : CU_DEVICE_INVALID;
		break;
	case 2:
		rc = say(p, set ? CU_MEM_ADVISE_SET_ACCESSED_BY : CU_MEM_ADVISE_UNSET_ACCESSED_BY);
		p->used_by = set ? 0 : CU_DEVICE_INVALID;
		break;
	case 3:
		rc = send_in_two(p, set ? device : host, set ? host : device);
		p->sent = set ? 0 : CU_DEVICE_CPU;
		p->rest = set ? CU_DEVICE_CPU : 0;
		break;
	default:
		rc = send(p, set ? device : host);
		p->sent = p->rest = set ? 0 : CU_DEVICE_CPU;
	}
	expect(rc == CUDA_SUCCESS, "advice is accepted");
}

/* Checks a range's attribute. */
static void expect_of_range(CUdeviceptr base, size_t size, CUmem_range_attribute which, int wanted,
			    const char *what)
{
	static char text[128];
	int value = -99;
	CUresult rc = cuMemRangeGetAttribute(&value, sizeof value, which, base, size);

	if (wrong || (!rc && value == wanted))
		return;
	snprintf(text, sizeof text, "%s: %d, expected %d (%d; %zu bytes at %#llx)", what, value,
		 wanted, rc, size, base);
	wrong = text;
}

static void expect_attribute(const struct place *p, CUmem_range_attribute which, int wanted,
			     const char *what)
{
	expect_of_range(p->base, p->size, which, wanted, what);
}

static void look(const struct place *p)
{
	CUdeviceptr base = 0, at = p->base + (size_t)rand() % p->size;
	unsigned int managed = 0;
	size_t size = 0;

	expect(*word(p, false) == p->first && *word(p, true) == p->last, "its contents");
	expect(cuMemGetAddressRange(&base, &size, at) == 0 && base == p->base && size == p->size,
	       "an address's range");
	expect(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == 0 && managed,
	       "it is managed memory");
	expect(cuMemFree(p->base + 8) == CUDA_ERROR_INVALID_VALUE || p->size == 8,
	       "an address inside it is not freed");
	expect(cuMemFreeAsync(p->base, NULL) == CUDA_ERROR_NOT_SUPPORTED,
	       "it is not freed in a stream's order");
	expect(cuStreamAttachMemAsync(NULL, p->base, 0, CU_MEM_ATTACH_GLOBAL) == 0,
	       "it can be attached");
	expect(cuStreamAttachMemAsync(NULL, p->base, p->size + 1, CU_MEM_ATTACH_GLOBAL) ==
	       CUDA_ERROR_INVALID_VALUE, "more than it cannot be attached");
	if (p->size < PAGE || forgets)
		return; /* it may share a page */
	expect_attribute(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p->read_mostly,
			 "its read-mostly advice");
	expect_attribute(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p->preferred,
			 "its preferred location");
	expect_of_range(p->base, PAGE, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p->sent,
			"where its first page was prefetched");
	if (p->size > PAGE)
		expect_of_range(p->base + PAGE, p->size - PAGE,
				CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p->rest,
				"where its other pages were prefetched");
	expect_attribute(p, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p->used_by, "who uses it");
}

static void give(struct place *p)
{
	look(p);
	expect(cuMemFree(p->base) == 0, "it is freed");
	p->base = 0;
}

static void step(struct place *p)
{
	if (!p->base) {
		take(p);
		return;
	}
	switch (rand() % 6) {
	case 0:
		give(p);
		break;
	case 1:
		gpu_adds(p);
		break;
	case 2:
		cpu_writes(p);
		break;
	case 3:
		look(p);
		break;
	default:
		advise(p);
	}
}

static void *count(void *arg)
{
	while (!counter.stop) {
		for (int i = 0; i < COUNTERS; i++)
			counter.words[i * 64]++;
		counter.rounds++;
		usleep(100);
	}
	return arg;
}

const char *managed_begin(CUmodule with, unsigned int seed)
{
	CUdeviceptr at = 0;

	module = with;
	srand(seed);
	expect(cuMemAllocManaged(&at, COUNTERS * 512, CU_MEM_ATTACH_GLOBAL) == 0,
	       "the counters are allocated");
	counter.words = (volatile uint64_t *)(uintptr_t)at;
	if (!wrong)
		memset((void *)(uintptr_t)at, 0, COUNTERS * 512);
	expect(!wrong && pthread_create(&counter.thread, NULL, count, NULL) == 0, "a thread");
	return wrong;
}

void managed_forgets(void)
{
	forgets = true;
}

const char *managed_steps(int n)
{
	for (int i = 0; !wrong && i < n; i++)
		step(&places[rand() % PLACES]);
	for (int i = 0; !wrong && i < PLACES; i++) {
		if (places[i].base)
			look(&places[i]);
	}
	return wrong;
}

const char *managed_end(void)
{
	counter.stop = true;
	pthread_join(counter.thread, NULL);
	for (int i = 0; i < COUNTERS; i++)
		expect(counter.words[i * 64] == counter.rounds, "no increment is lost");
	for (int i = 0; !wrong && i < PLACES; i++) {
		if (places[i].base)
			give(&places[i]);
	}
	expect(cuMemFree((CUdeviceptr)(uintptr_t)counter.words) == 0, "the counters are freed");
	return wrong;
}
