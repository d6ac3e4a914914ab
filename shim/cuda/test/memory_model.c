/* SPDX-License-Identifier: Apache-2.0
 * cuda_model SEED [STEPS]: device memory allocated and freed at random, every answer compared with
 * a plain list. Runs on the driver alone and under the stand-in. */
#include <cuda.h>
#include <stdlib.h>

#include "shim/cuda/test/against.h"
#include "test/support/tap.h"

#define PLACES 120
#define STEPS 3000
#define ALIGN 256

static struct place {
	CUdeviceptr base;
	size_t size;
	unsigned char fill;
} places[PLACES];

static const char *wrong; /* the first difference; NULL: none */

static void expect(bool good, const char *what)
{
	if (!good && !wrong)
		wrong = what;
}

static size_t some_size(void)
{
	switch (rand() % 8) {
	case 0:
		return 1 + (size_t)rand() % 512;
	case 1:
		return (size_t)1 << (rand() % 23);
	case 2:
		return (1 << 20) + (size_t)rand() % (6 << 20);
	case 3:
		return (size_t)(1 + rand() % 3) * (2 << 20);
	default:
		return 1 + (size_t)rand() % 100000;
	}
}

static void look(const struct place *p)
{
	CUdeviceptr at = p->base + (p->size > 1 ? (size_t)rand() % p->size : 0), base = 0,
		    start = 0;
	CUcontext context = NULL, current;
	unsigned char first = 0, last = 0;
	size_t size = 0, length = 0;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				       CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	void *data[] = {&start, &length};

	cuCtxGetCurrent(&current);
	expect(cuMemGetAddressRange(&base, &size, at) == 0 && base == p->base && size == p->size,
	       "an address's range");
	expect(cuPointerGetAttributes(2, which, data, at) == 0 && start == p->base &&
		       length == p->size,
	       "its attributes");
	expect(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at) == 0 &&
	       context == current, "its context");
	cuMemcpyDtoH(&first, p->base, 1);
	cuMemcpyDtoH(&last, p->base + p->size - 1, 1);
	expect(first == p->fill && last == p->fill, "its contents");
}

static void take(struct place *p)
{
	size_t pitch;
	CUresult rc;

	p->size = some_size();
	p->fill = (unsigned char)rand();
	if (rand() % 8) {
		rc = cuMemAlloc(&p->base, p->size);
	} else {
		rc = cuMemAllocPitch(&p->base, &pitch, p->size, 3, 4);
		expect(rc || (pitch >= p->size && pitch % 32 == 0), "a pitch");
		p->size = pitch * 3;
	}
	if (rc) {
		expect(rc == CUDA_ERROR_OUT_OF_MEMORY, "an allocation succeeds or finds no memory");
		p->base = 0;
		return;
	}
	expect(p->base % ALIGN == 0, "alignment");
	for (int i = 0; i < PLACES; i++) {
		if (&places[i] != p && places[i].base)
			expect(p->base + p->size <= places[i].base ||
				       places[i].base + places[i].size <= p->base,
			       "allocations do not overlap");
	}
	expect(cuMemsetD8(p->base, p->fill, p->size) == 0, "it can be written");
}

static void give(struct place *p)
{
	look(p);
	if (p->size > 1)
		expect(cuMemFree(p->base + 1) == CUDA_ERROR_INVALID_VALUE,
		       "an address inside it is not freed");
	expect(cuMemFree(p->base) == 0, "it is freed");
	p->base = 0;
}

int main(int argc, char *argv[])
{
	int steps = argc > 2 ? atoi(argv[2]) : STEPS;
	size_t before, after, total;
	CUcontext context;

	srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 99;
	cuMemGetInfo(&before, &total);
	for (int i = 0; !wrong && i < steps; i++) {
		struct place *p = &places[rand() % PLACES];

		if (p->base && rand() % 3 == 0)
			look(p);
		else if (p->base)
			give(p);
		else
			take(p);
	}
	for (int i = 0; i < PLACES; i++) {
		if (places[i].base)
			give(&places[i]);
	}
	ok(!wrong, "random sequences: %s", none(wrong));
	cuMemGetInfo(&after, &total);
	ok(before == after, "all memory is free again");
	return tap_done();
}
