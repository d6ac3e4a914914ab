/* SPDX-License-Identifier: Apache-2.0
 * Included by every file with bodies of CUDA's functions. A row of functions.tbl marks those
 * `hand`; its section is the file's name. */
#ifndef GCK_CUDA_FUNCTION_H
#define GCK_CUDA_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/obstacles.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/cuda/real.h"
#include "shim/inside/gate.h"

#define GCK_CUDA_SHOWN __attribute__((visibility("default")))

/* GCK_CUDA_FUNCTION(cuMemAlloc_v2, (CUdeviceptr *dptr, size_t size)) { … }. cuda.h declares the
 * function, so a body with other parameters fails to compile. Call the driver's,
 * gck_cuda_real.cuMemAlloc_v2, between GCK_CUDA_ENTER and GCK_CUDA_LEAVE only. */
#define GCK_CUDA_FUNCTION(name, parameters) GCK_CUDA_SHOWN CUresult name parameters

/* Enter the gate. object: what the call works on, for messages (a stream), or 0. A call within a
 * call (from a callback of the program) passes. Returns with the real library loaded. */
#define GCK_CUDA_ENTER(object) gck_gate_enter(__func__, (uint64_t)(uintptr_t)(object))
#define GCK_CUDA_LEAVE() gck_gate_leave()

#endif
