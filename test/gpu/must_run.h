/* SPDX-License-Identifier: Apache-2.0
 * Calls of the CUDA runtime that must succeed, in programs without driver.cu. */
#ifndef GCK_TEST_GPU_MUST_RUN_H
#define GCK_TEST_GPU_MUST_RUN_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST_RUN(call) \
	do { \
		cudaError_t e_ = (call); \
		if (e_ != cudaSuccess) { \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)); \
			exit(2); \
		} \
	} while (0)

#endif
