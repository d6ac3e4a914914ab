/* SPDX-License-Identifier: Apache-2.0
 * Kernels with points (doc/kernels.md) leave the GPU for a checkpoint before they are done, so
 * nothing that follows one in its stream's order may be queued behind it. The upper layer that
 * launches them (points/) registers here. */
#ifndef GCK_CUDA_FOLLOW_H
#define GCK_CUDA_FOLLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_follow_table {
	void (*wait)(CUstream stream);
	void (*wait_all)(void);
	bool (*is_left)(CUstream stream, uint64_t age);
	bool (*running)(void);
	void (*ask)(int64_t end_ns);
	int (*settle)(int64_t end_ns, struct gck_error *err);
	void (*unload)(CUmodule module, CUlibrary library);
};

/* Register the table, which stays the caller's. Called once, before the program's first call. */
void gck_cuda_follow_begin(const struct gck_cuda_follow_table *table);

/* Launches of kernels with points that may not be done, written by the upper layer. */
extern _Atomic unsigned gck_cuda_pointed;
/* How often kernels were launched again. */
extern _Atomic uint64_t gck_cuda_follow_age;

/* Slow paths. */
void gck_cuda_follow_wait(CUstream stream) __attribute__((cold));
void gck_cuda_follow_wait_all(void) __attribute__((cold));
bool gck_cuda_follow_left(CUstream stream, uint64_t age) __attribute__((cold));

static inline bool gck_cuda_has_pointed(void)
{
	return __builtin_expect(atomic_load_explicit(&gck_cuda_pointed, memory_order_relaxed), 0);
}

/* For threads of the program, inside the gate, which they leave while it is closed: wait for the
 * kernels with points that work of this stream would follow. NULL is no stream here. */
static inline void gck_cuda_follow(CUstream stream)
{
	if (gck_cuda_has_pointed())
		gck_cuda_follow_wait(stream);
}

/* The same for all kernels with points. */
static inline void gck_cuda_follow_all(void)
{
	if (gck_cuda_has_pointed())
		gck_cuda_follow_wait_all();
}

/* The answer of cuStreamQuery, asked since the age was read: a stream whose kernel has left is not
 * done. */
static inline CUresult gck_cuda_follow_query(CUstream stream, uint64_t age, CUresult rc)
{
	return rc == CUDA_SUCCESS && gck_cuda_has_pointed() && gck_cuda_follow_left(stream, age)
	       ? CUDA_ERROR_NOT_READY : rc;
}

/* A module, or a library (NULL: none of it), is about to be unloaded. In the gate. */
void gck_cuda_follow_unload(CUmodule module, CUlibrary library);

/* Whether kernels with points are on the GPU. At any time. */
bool gck_cuda_follow_running(void) GCK_MUST_CHECK;

/* Ask the kernels with points to leave. In the CUDA thread, with the gate closed. */
void gck_cuda_follow_ask(int64_t end_ns);

/* Launch what has left again. It waits until all have left, until end_ns at most; then the
 * program's threads do it, which wait for it. -1: a launch failed, and the GPU is lost. In the CUDA
 * thread, with the gate closed. */
int gck_cuda_follow_settle(int64_t end_ns, struct gck_error *err) GCK_MUST_CHECK;

#endif
