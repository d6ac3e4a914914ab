/* SPDX-License-Identifier: Apache-2.0
 * What a file with bodies of CUDA's functions begins with. The row of functions.tbl says `hand`, the
 * section's name is the file's. */
#ifndef GCK_CUDA_FUNCTION_H
#define GCK_CUDA_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/real.h"
#include "shim/inside/gate.h"

#define GCK_CUDA_SHOWN __attribute__((visibility("default")))

/* GCK_CUDA_FUNCTION(cuMemAlloc_v2, (CUdeviceptr *dptr, size_t size)) { … }. cuda.h declares it, so a
 * body that does not fit fails to compile. The real one is gck_cuda_real.cuMemAlloc_v2, called between
 * GCK_CUDA_ENTER and GCK_CUDA_LEAVE only. */
#define GCK_CUDA_FUNCTION(name, parameters) GCK_CUDA_SHOWN CUresult name parameters

/* Through the gate; object: what the call works on, for messages (a stream), or 0. A call within a
 * call (a callback of the program's) passes. Returns with the real library loaded. */
#define GCK_CUDA_ENTER(object) gck_gate_enter(__func__, (uint64_t)(uintptr_t)(object))
#define GCK_CUDA_LEAVE() gck_gate_leave()

#endif
