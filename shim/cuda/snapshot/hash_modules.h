/* SPDX-License-Identifier: Apache-2.0
 * The hash's kernel (hash.h), loaded into contexts that snapshots are used from. Loading waits for
 * kernels that run and holds up launches meanwhile (driver 580): it is done where the program stands at the
 * gate. Once loaded it stays: the driver carries it. */
#ifndef GCK_CUDA_HASH_MODULES_H
#define GCK_CUDA_HASH_MODULES_H

#include "shim/cuda/snapshot/hash.h"
#include "shim/cuda/snapshot/snapshot.h"

/* For what the snapshot keeps, with the gate closed. Not for a process' first one: nothing is to be
 * compared then. What fails costs the hashes alone. */
void gck_cuda_hashers_load(const struct gck_cuda_snapshot *s);

/* In that context; NULL: there is none. */
const struct gck_cuda_hasher *gck_cuda_hasher_of(CUcontext context);

/* The context has ended. */
void gck_cuda_hashers_forget(CUcontext context);

#endif
