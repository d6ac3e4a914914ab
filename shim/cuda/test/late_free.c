/* SPDX-License-Identifier: Apache-2.0
 * A thread waits for memory that the driver reports free only some time after its release; another
 * thread allocates meanwhile. With FAKE_CUDA_LATE=100 and FAKE_CUDA_MEMORY=120: one large
 * allocation at a time. */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "test/support/tap.h"

#define LARGE ((size_t)64 << 20)
#define SMALL ((size_t)1 << 10)
#define ENOUGH 2

static CUcontext context;
static _Atomic bool waits, over;

/* Allocate while the other thread waits: how often that succeeded. */
static void *allocate(void *arg)
{
	int *times = arg;
	CUdeviceptr at;

	cuCtxSetCurrent(context);
	while (!over) {
		bool before = waits;

		if (cuMemAlloc(&at, SMALL) || cuMemFree(at))
			return NULL;
		*times += before && waits;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	CUdeviceptr at, small;
	int times = 0;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc(&small, SMALL) || cuMemAlloc(&at, LARGE) ||
	    pthread_create(&thread, NULL, allocate, &times))
		return 99;
	is_int(cuMemFree(at), 0, "memory is freed");
	waits = true;
	is_int(cuMemAlloc(&at, LARGE), 0, "it is allocated again, once the driver reports it free");
	waits = false;
	over = true;
	pthread_join(thread, NULL);
	ok(times >= ENOUGH, "smaller allocations do not wait: %d times", times);
	return tap_done();
}
