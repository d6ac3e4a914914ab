/* SPDX-License-Identifier: Apache-2.0
 * What the program advised about managed memory, and where it prefetched it: repeated when the
 * memory comes back after a checkpoint. */
#ifndef GCK_CUDA_ADVICE_H
#define GCK_CUDA_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

#define GCK_CUDA_PREFETCHED 0    /* no advice, but cuMemPrefetchAsync and the like */

struct gck_cuda_advice {
	uint64_t base, size;
	int advice;        /* a CUmem_advise, or GCK_CUDA_PREFETCHED */
	CUmemLocation location;
};

/* Remember advice that the driver has accepted, if it is about memory of ours. Without memory
 * for it, it is forgotten. */
void gck_cuda_advice_note(struct gck_cuda_advice w);

/* Whether any of the range was prefetched. */
bool gck_cuda_advice_was_prefetched(uint64_t base, uint64_t size);

/* Forget advice about a range that was freed, or whose memory the driver has freed. */
void gck_cuda_advice_forget(uint64_t base, uint64_t size);

/* The same for a range that may be allocated again: the driver is told the opposite as well. */
void gck_cuda_advice_undo(uint64_t base, uint64_t size);

/* Repeat all advice about a range, in its order, as far as the driver accepts it; prefetches run
 * on the stream and are not waited for. */
void gck_cuda_advice_repeat(uint64_t base, uint64_t size, CUstream stream);

#endif
