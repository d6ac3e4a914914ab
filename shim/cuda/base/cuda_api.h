/* SPDX-License-Identifier: Apache-2.0
 * CUDA's own declarations. Every version of each function has a name of its own. */
#ifndef GCK_CUDA_CUDA_API_H
#define GCK_CUDA_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>

#endif
