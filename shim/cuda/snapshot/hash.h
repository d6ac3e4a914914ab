/* SPDX-License-Identifier: Apache-2.0
 * The store's hash (XXH3-128) of device memory, by the device itself: what a store has already need not
 * leave it. */
#ifndef GCK_CUDA_HASH_H
#define GCK_CUDA_HASH_H

#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/snapshot/snapshot.h"

#define GCK_CUDA_HASH_CHUNK ((uint64_t)256 << 10) /* a chunk of the store's */
#define GCK_CUDA_HASH_BYTES 16                     /* high word, low word */

struct gck_cuda_hash_module {
	CUmodule module; /* NULL: there is none */
	CUfunction kernel;
};

/* Windows that [address, address + size) touches. */
uint64_t gck_cuda_hash_chunks(uint64_t address, uint64_t size);

/* Have the hash of each window that the range touches, of the part of it that lies in the range, written
 * to `out`, an address that the device can write to (device memory, or pinned host memory). Address and
 * size are multiples of 4096. Does not wait: it is done when the stream is. */
int gck_cuda_hash(const struct gck_cuda_hash_module *h, CUstream stream, CUdeviceptr address, uint64_t size,
		  CUdeviceptr out, struct gck_error *err);

/* For what the snapshot keeps, with the gate closed. Not for a process' first one: nothing is to be
 * compared then. What fails costs the hashes alone. */
void gck_cuda_hash_modules_load(const struct gck_cuda_snapshot *s);

/* In that context; NULL: there is none. */
const struct gck_cuda_hash_module *gck_cuda_hash_module_of(CUcontext context);

/* The context has ended. */
void gck_cuda_hash_modules_forget(CUcontext context);

#endif
