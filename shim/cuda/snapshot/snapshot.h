/* SPDX-License-Identifier: Apache-2.0
 * Where the contents of slabs are while a checkpoint needs them: in blocks of memory on the same device as
 * far as that has room and may be used, the rest in host memory, which becomes part of the image. No
 * locks: with the gate closed the CUDA thread has it, then serve_data.c. */
#ifndef GCK_CUDA_SNAPSHOT_H
#define GCK_CUDA_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/memory/external_mapping.h"
#include "shim/cuda/memory/slab.h"

/* A range of the program's device memory, in whole pages, and its copy. */
struct gck_cuda_extent {
	uint64_t address, size;
	uint64_t copy;       /* where: of the device, or of the host */
	CUdevice device;
	bool kept;           /* on the device */
};

/* What is kept on one device. */
struct gck_cuda_share {
	CUdevice device;
	CUcontext context;   /* that it is used from */
	uint64_t base, size; /* addresses of the blocks, one behind the other; size 0: nothing */
};

/* Of the memory below them. */
struct gck_cuda_block {
	struct gck_cuda_slab slab;     /* its memory not kept: it is gone */
	struct gck_cuda_external_mapping external; /* where it cannot be had back */
};

struct gck_cuda_snapshot {
	struct gck_cuda_extent *v; /* in the order of their addresses */
	size_t n, capacity;
	struct gck_cuda_share *shares; /* of each device that the program has memory of */
	size_t nshares, shares_capacity;
	struct gck_cuda_block *blocks;
	size_t nblocks, blocks_capacity;
	void *host;
	uint64_t host_size;  /* in use, of */
	uint64_t host_capacity;
};

extern struct gck_cuda_snapshot gck_cuda_snapshot;

/* The program runs: the host memory that a drain will need, as far as is known, and may take (expect.c). */
void gck_cuda_snapshot_expect(const struct gck_cuda_order *order);

/* Room for what is taken of all slabs, mapped; nothing is copied yet. -1: there is none; what was made
 * is to be dropped. */
int gck_cuda_snapshot_make(const struct gck_cuda_order *order, struct gck_error *err);

/* The driver forgets the blocks, which stay; and one more of them back (CUDA_SUCCESS; *more: there are
 * others). */
CUresult gck_cuda_snapshot_unmap(void);
CUresult gck_cuda_snapshot_map_one(bool *more);

/* Where memory cannot be had back: all of it is read through windows from here on. */
CUresult gck_cuda_snapshot_open(void);
bool gck_cuda_snapshot_is_open(void);
/* The windows go. Waits for what their contexts were given to do: not with a lock that the program's threads take. */
void gck_cuda_snapshot_close(void);

/* Is anything kept on a device? */
bool gck_cuda_snapshot_is_kept(void);

/* In a drained process, where this one is wanted for something else: all memory of blocks goes, where the program's own
 * can be had back. False: there is none of that device. The table stays. */
bool gck_cuda_snapshot_give(CUdevice device);

/* A context has ended, and what was in it. */
void gck_cuda_snapshot_lost(CUcontext gone);

/* One block's memory goes; what is in the table is no more to be read. False: it cannot be unmapped. */
bool gck_cuda_snapshot_drop_block(struct gck_cuda_block *block);
/* The host's part goes; all that is kept on devices goes, with the table. */
void gck_cuda_snapshot_drop_host(void);
void gck_cuda_snapshot_drop(void);
/* The same in a restored process, which never had the blocks. */
void gck_cuda_snapshot_forget(void);

/* All of the table, not beyond order->end_ns. */
int gck_cuda_copy_out(const struct gck_cuda_order *order, struct gck_error *err);

/* What host memory has back to where it was, and what is seen through windows. */
int gck_cuda_copy_in(struct gck_error *err);

#endif
