/* SPDX-License-Identifier: Apache-2.0
 * CUDA's own declarations, of every version of each function under its own name. */
#ifndef GCK_CUDA_CUDA_API_H
#define GCK_CUDA_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>

#endif
