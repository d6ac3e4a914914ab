/* SPDX-License-Identifier: Apache-2.0
 * Threads allocate and free stream-ordered memory at the same time, each in its own stream and in
 * its default stream. Memory that one has freed is allocated by others. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/test/ordered_model.h"

#define THREADS 4
#define ROUNDS 300
#define SIZES 9

static CUcontext context;
static CUfunction fill, check;

struct worker {
	pthread_t thread;
	unsigned int seed;
	CUresult rc;
};

static CUresult launch(CUfunction f, CUdeviceptr at, uint64_t size, uint64_t tag, CUstream stream)
{
	void *params[] = {&at, &size, &tag};

	return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult once(struct worker *w, CUstream stream)
{
	uint64_t size = (uint64_t)4096 << rand_r(&w->seed) % SIZES,
		 tag = (uint64_t)rand_r(&w->seed);
	CUdeviceptr at = 0;
	CUresult rc = cuMemAllocAsync(&at, size, stream);

	if (!rc)
		rc = launch(fill, at, size, tag, stream) ?: launch(check, at, size, tag, stream);
	return rc ? rc : cuMemFreeAsync(at, stream);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	CUstream stream = NULL;

	w->rc = cuCtxSetCurrent(context) ?: cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	for (int i = 0; !w->rc && i < ROUNDS; i++) {
		w->rc = once(w, i % 3 ? stream : CU_STREAM_PER_THREAD);
		if (!w->rc && i % 50 == 49)
			w->rc = cuStreamSynchronize(stream);
	}
	return w->rc || (w->rc = cuStreamDestroy_v2(stream)) ? NULL : w;
}

const char *ordered_threads(CUmodule module)
{
	struct worker workers[THREADS];
	bool good = !cuCtxGetCurrent(&context) &&
		    !cuModuleGetFunction(&fill, module, "ordered_fill") &&
		    !cuModuleGetFunction(&check, module, "ordered_check");

	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.seed = i};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		good = good && !workers[i].rc;
	}
	return good && !cuCtxSynchronize() ? NULL
					   : "threads allocate and free in their streams' orders";
}
