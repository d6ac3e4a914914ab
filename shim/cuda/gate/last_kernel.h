/* SPDX-License-Identifier: Apache-2.0
 * The last kernel that each stream was given, so that `able` can name one that does not end. A
 * launch costs a few stores here: time is counted by the CUDA thread, and nothing is asked of the
 * driver. What is not certain is not named. */
#ifndef GCK_CUDA_LAST_KERNEL_H
#define GCK_CUDA_LAST_KERNEL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/gate/capture.h"

#define GCK_CUDA_LAST_KERNELS_LOG 6
#define GCK_CUDA_LAST_KERNELS (1 << GCK_CUDA_LAST_KERNELS_LOG)

/* Streams share an entry if their handles have the same hash: it is of the last one. Threads that
 * launch write it without a lock. It may mix two launches of the same moment, so only one that has
 * not changed for a second tells anything. */
struct gck_cuda_last_kernel {
	_Alignas(64) _Atomic(CUstream) stream;
	_Atomic(CUfunction) function;
	_Atomic(CUcontext) context; /* of the legacy default stream */
	_Atomic uint32_t second;
	_Atomic uint32_t n; /* kernels since the stream was idle; 0: the last one is not known */
};

extern struct gck_cuda_last_kernel gck_cuda_last_kernels[GCK_CUDA_LAST_KERNELS];
extern _Atomic uint32_t gck_cuda_second; /* counts seconds, or longer times */

void gck_cuda_last_kernel_new(struct gck_cuda_last_kernel *k, CUstream stream);

static inline size_t gck_cuda_last_kernel_at(CUstream stream)
{
	return (uintptr_t)stream * 0x9e3779b97f4a7c15u >> (64 - GCK_CUDA_LAST_KERNELS_LOG);
}

static inline struct gck_cuda_last_kernel *gck_cuda_last_kernel_of(CUstream stream)
{
	return &gck_cuda_last_kernels[gck_cuda_last_kernel_at(stream)];
}

#define GCK_LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define GCK_STORE(word, value) atomic_store_explicit(&(word), value, memory_order_relaxed)

/* The stream, by its name in any thread, is about to be given a kernel. In the gate, as the next
 * two. */
static inline void gck_cuda_gave_kernel(CUstream stream, CUfunction function)
{
	struct gck_cuda_last_kernel *k = gck_cuda_last_kernel_of(stream);

	if (GCK_LOAD(k->stream) != stream ||
	    (stream == CU_STREAM_LEGACY && GCK_LOAD(k->function) != function))
		gck_cuda_last_kernel_new(k, stream);
	GCK_STORE(k->function, function);
	GCK_STORE(k->second, GCK_LOAD(gck_cuda_second));
	GCK_STORE(k->n, gck_cuda_capture_is_on() ? 0 : GCK_LOAD(k->n) + 1);
}

/* It is about to be given work that may take long, or is idle: what a query says is not said of its
 * last kernel. */
static inline void gck_cuda_gave_other(CUstream stream)
{
	struct gck_cuda_last_kernel *k = gck_cuda_last_kernel_of(stream);

	if (GCK_LOAD(k->stream) == stream)
		GCK_STORE(k->n, 0);
}

/* It is about to be given a copy. One that comes with a kernel ends soon after it; of a later one
 * it is not known whether the kernel was done before. */
static inline void gck_cuda_gave_copy(CUstream stream)
{
	struct gck_cuda_last_kernel *k = gck_cuda_last_kernel_of(stream);

	if (GCK_LOAD(gck_cuda_second) - GCK_LOAD(k->second) > 1)
		gck_cuda_gave_other(stream);
}

#undef GCK_LOAD
#undef GCK_STORE

/* Before a stream ends, before a context or a module may end (all streams' last kernels are
 * forgotten), and before exit ends the driver: the CUDA thread asks nothing more of them. */
void gck_cuda_last_kernel_forget(CUstream stream);
void gck_cuda_last_kernels_forget(void);
void gck_cuda_last_kernels_end(void);

/* Visit the streams' last kernels, with a copy of each entry. Its handles are those of things that
 * have not ended, and do not end meanwhile. In the CUDA thread. */
typedef void gck_cuda_last_kernel_fn(const struct gck_cuda_last_kernel *k,
				     const struct gck_cuda_last_kernel *copy, void *arg);
void gck_cuda_last_kernels_each(gck_cuda_last_kernel_fn *visit, void *arg);

/* In a child: unlock, since the lock's holder is not there. */
void gck_cuda_last_kernels_forked(void);

#endif
