/* SPDX-License-Identifier: Apache-2.0
 * What a program has advised about managed memory, and where it has sent it: said again when the
 * memory comes back. */
#ifndef GCK_CUDA_ADVICE_H
#define GCK_CUDA_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

#define GCK_CUDA_PREFETCHED 0    /* not an advice: cuMemPrefetchAsync and the like */

struct gck_cuda_advice {
	uint64_t base, size;
	int advice;        /* a CUmem_advise, or GCK_CUDA_PREFETCHED */
	CUmemLocation location;
};

/* The driver has accepted it. Of memory of ours it is remembered; without memory for it, forgotten. */
void gck_cuda_advice_note(struct gck_cuda_advice w);

/* Was anything of the range sent anywhere? */
bool gck_cuda_advice_was_prefetched(uint64_t base, uint64_t size);

/* All that lies in that range is freed, or the driver's memory there is gone: no more of it. */
void gck_cuda_advice_forget(uint64_t base, uint64_t size);

/* The range is freed, and may be given out again: the driver is told the opposite, and it is forgotten. */
void gck_cuda_advice_undo(uint64_t base, uint64_t size);

/* The range is there again, as nobody ever said anything: say it all, in the same order, as far as the driver takes
 * it. Places that memory was sent to are sent to again, without waiting. */
void gck_cuda_advice_repeat(uint64_t base, uint64_t size, CUstream stream);

#endif
