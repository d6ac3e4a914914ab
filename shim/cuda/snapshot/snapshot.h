/* SPDX-License-Identifier: Apache-2.0
 * Where the contents of device memory are while a checkpoint needs them: in blocks on the same
 * device as far as memory is free and may be used, the rest in host memory, which becomes part
 * of the image. No locks: the CUDA thread uses it with the gate closed, later the holder of the
 * device copy's lock. */
#ifndef GCK_CUDA_SNAPSHOT_H
#define GCK_CUDA_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/memory/slab.h"

/* A range of the program's device memory, in whole pages, and its copy. */
struct gck_cuda_extent {
	uint64_t address, size;
	uint64_t copy;       /* the copy's address, of the device or of the host */
	CUdevice device;
	bool on_device;           /* the copy is on the device */
};

/* What is kept on one device. */
struct gck_cuda_share {
	CUdevice device;
	CUcontext context;   /* the context that it is used from */
	uint64_t base, size; /* the blocks' addresses, one after the other; size 0: nothing is
			      * kept */
};


struct gck_cuda_snapshot {
	struct gck_cuda_extent *v; /* in the order of their addresses */
	size_t n, capacity;
	struct gck_cuda_share *shares; /* one for each device that the program has memory of */
	size_t nshares, shares_capacity;
	struct gck_cuda_slab *blocks; /* the shares' memory; without a descriptor in the vault: it
				       * was freed */
	size_t nblocks, blocks_capacity;
	void *host;
	uint64_t host_size;  /* bytes in use; and the memory's size: */
	uint64_t host_capacity;
};

extern struct gck_cuda_snapshot gck_cuda_snapshot;

/* Prepare the host memory that a drain will probably need, while the program runs. */
void gck_cuda_snapshot_prepare(const struct gck_cuda_order *order);

/* Make the table, with mapped memory for all copies; nothing is copied yet. -1: there is no
 * memory; drop what was made. */
int gck_cuda_snapshot_make(const struct gck_cuda_order *order, struct gck_error *err)
	GCK_MUST_CHECK;

/* Make the driver forget the blocks, whose memory stays; and map one of them again. *more:
 * others are left. */
CUresult gck_cuda_snapshot_unmap(void) GCK_MUST_CHECK;
CUresult gck_cuda_snapshot_map_one(bool *more) GCK_MUST_CHECK;

/* Whether anything is kept on a device. */
bool gck_cuda_snapshot_is_on_device(void) GCK_MUST_CHECK;

/* In a drained process: free the memory of all blocks, for another rank, if any is on that
 * device. The program's own memory can be recalled. False: there is none. The table stays. */
bool gck_cuda_snapshot_give(CUdevice device);

/* A context has ended. */
void gck_cuda_snapshot_lost(CUcontext gone);

/* Free the memory of a block; its copies must not be read any more. False: it cannot be
 * unmapped. */
bool gck_cuda_snapshot_drop_block(struct gck_cuda_slab *block);
/* Free the host memory; free the blocks and the table. */
void gck_cuda_snapshot_drop_host(void);
void gck_cuda_snapshot_drop(void);
/* Free the table in a restored process, which has no blocks. */
void gck_cuda_snapshot_forget(void);

/* Copy out all of the table, by order->end_ns. */
int gck_cuda_copy_out(const struct gck_cuda_order *order, struct gck_error *err) GCK_MUST_CHECK;

/* Copy back what is in host memory. */
int gck_cuda_copy_in(struct gck_error *err) GCK_MUST_CHECK;

#endif
