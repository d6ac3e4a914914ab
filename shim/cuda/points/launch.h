/* SPDX-License-Identifier: Apache-2.0
 * Launches of kernels with points. */
#ifndef GCK_CUDA_POINTS_LAUNCH_H
#define GCK_CUDA_POINTS_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

/* Whether a module with points was ever loaded. */
extern _Atomic bool gck_cuda_points_loaded;

static inline bool gck_cuda_has_points(void)
{
	return __builtin_expect(
		atomic_load_explicit(&gck_cuda_points_loaded, memory_order_relaxed), 0);
}

/* A module or library was loaded. */
void gck_cuda_points_module(CUmodule module);
void gck_cuda_points_library(CUlibrary library);

/* The attribute of cuLaunchCooperativeKernel. */
extern CUlaunchAttribute gck_cuda_points_cooperative;

/* cuLaunchKernel, cuLaunchKernelEx and cuLaunchCooperativeKernel once there are points. stream: the
 * launch's, by its name in any thread. In the gate. */
CUresult gck_cuda_points_launch(CUstream stream, const CUlaunchConfig *config, CUfunction function,
				void **parameters, void **extra) __attribute__((cold));

/* The function is launched in another way, from where it cannot leave: it never will. */
void gck_cuda_points_off(CUfunction function) __attribute__((cold));

/* Register with gate/follow.h. Called once, before the program's first call. */
void gck_cuda_points_begin(void);

/* A context has ended. */
void gck_cuda_points_forget(CUcontext context);

#endif
