/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/last_kernel.h"

#include <pthread.h>
#include <stdbool.h>

#include "shim/cuda/dispatch/function.h"

struct gck_cuda_last_kernel gck_cuda_last_kernels[GCK_CUDA_LAST_KERNELS];
_Atomic uint32_t gck_cuda_second;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ended;

/* A function belongs to one context, but a CUkernel to none. */
void gck_cuda_last_kernel_new(struct gck_cuda_last_kernel *k, CUstream stream)
{
	CUcontext context = NULL;

	if (stream == CU_STREAM_LEGACY)
		gck_cuda_real.cuCtxGetCurrent(&context);
	if (k->stream != stream || k->context != context)
		k->n = 0;
	k->context = context;
	k->stream = stream;
}

void gck_cuda_last_kernel_forget(CUstream stream)
{
	pthread_mutex_lock(&lock);
	gck_cuda_gave_other(stream);
	pthread_mutex_unlock(&lock);
}

void gck_cuda_last_kernels_forget(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < GCK_CUDA_LAST_KERNELS; i++) {
		gck_cuda_last_kernels[i].n = 0;
		gck_cuda_last_kernels[i].stream = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_last_kernels_end(void)
{
	pthread_mutex_lock(&lock);
	ended = true;
	pthread_mutex_unlock(&lock);
}

void gck_cuda_last_kernels_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

static struct gck_cuda_last_kernel copy(const struct gck_cuda_last_kernel *k)
{
	return (struct gck_cuda_last_kernel){k->stream, k->function, k->context, k->second, k->n};
}

void gck_cuda_last_kernels_each(gck_cuda_last_kernel_fn *visit, void *arg)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; !ended && i < GCK_CUDA_LAST_KERNELS; i++) {
		const struct gck_cuda_last_kernel k = copy(&gck_cuda_last_kernels[i]);

		if (k.n)
			visit(&gck_cuda_last_kernels[i], &k, arg);
	}
	pthread_mutex_unlock(&lock);
}
