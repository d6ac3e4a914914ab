/* SPDX-License-Identifier: Apache-2.0
 * The program's device memory, on slabs of our own (slab.h). */
#ifndef GCK_CUDA_MEMORY_H
#define GCK_CUDA_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/header.h"

/* Everything that lies in this context is freed: it is gone. */
void gck_cuda_memory_forget(CUcontext context);

/* An allocation as the program knows it. */
struct gck_cuda_allocation {
	uint64_t base, size;
	CUcontext context;
	uint64_t id;
};

/* The one with that address; false: it is not in our memory. */
bool gck_cuda_memory_find(uint64_t address, struct gck_cuda_allocation *a);

/* Bytes of slabs on a device that no allocation has. */
uint64_t gck_cuda_memory_spare(CUdevice device);

#endif
