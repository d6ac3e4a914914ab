/* SPDX-License-Identifier: Apache-2.0
 * The store's hash (XXH3-128) of device memory, computed by the device: data that the store has
 * already need not leave it. */
#ifndef GCK_CUDA_HASH_H
#define GCK_CUDA_HASH_H

#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/snapshot/snapshot.h"

#define GCK_CUDA_HASH_CHUNK ((uint64_t)256 << 10) /* the size of a chunk of the store */
#define GCK_CUDA_HASH_BYTES 16                     /* high word, low word */

struct gck_cuda_hash_module {
	CUmodule module; /* NULL: there is none */
	CUfunction kernel;
};

/* How many chunks [address, address + size) touches. */
uint64_t gck_cuda_hash_chunks(uint64_t address, uint64_t size);

/* Start hashing each chunk that the range touches, of the part inside the range, into `out`,
 * which the device can write to (device memory or pinned host memory). Address and size are
 * multiples of 4096. Does not wait: the hashes are there when the stream is idle. */
int gck_cuda_hash(const struct gck_cuda_hash_module *h, CUstream stream, CUdeviceptr address,
		  uint64_t size, CUdeviceptr out, struct gck_error *err) GCK_MUST_CHECK;

/* Load the kernel into the contexts of what the snapshot keeps, with the gate closed: loading
 * waits for running kernels and blocks launches (driver 580). Does nothing for a process's first
 * snapshot, which is compared with nothing. A failure costs the hashes only. */
void gck_cuda_hash_modules_load(const struct gck_cuda_snapshot *s);

/* The kernel in that context; NULL: there is none. */
const struct gck_cuda_hash_module *gck_cuda_hash_module_of(CUcontext context);

/* A context has ended. */
void gck_cuda_hash_modules_forget(CUcontext context);

#endif
