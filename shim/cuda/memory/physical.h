/* SPDX-License-Identifier: Apache-2.0
 * Physical memory of a device, with a descriptor that is kept (keep.h): the driver can be told to forget
 * it, and has it back as it was. Mappings of it are the caller's. No locks. */
#ifndef GCK_CUDA_PHYSICAL_H
#define GCK_CUDA_PHYSICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_physical {
	CUmemGenericAllocationHandle handle; /* 0: the driver does not know it */
	uint64_t kept;                       /* its descriptor; 0: none, the driver must not forget it */
};

/* New memory, of which a descriptor can be had, whatever prop asks for besides. */
CUresult gck_cuda_physical_make(struct gck_cuda_physical *p, uint64_t size, const CUmemAllocationProp *prop);
CUresult gck_cuda_physical_keep(struct gck_cuda_physical *p, CUdevice device);

/* The driver forgets it; and has it again. naps: how long a descriptor is waited for (patience.h); where none is to be
 * had it is CUDA_ERROR_OPERATING_SYSTEM, with errno. */
CUresult gck_cuda_physical_forget(struct gck_cuda_physical *p);
CUresult gck_cuda_physical_recall(struct gck_cuda_physical *p, int naps);

/* The one that is kept, once more; -1 with errno. */
int gck_cuda_physical_descriptor(const struct gck_cuda_physical *p, int naps);

/* Has the driver anything back? Not in a process that it has moved to another device (doc/cuda-driver.md): a restored
 * process finds out with the first that is kept on each device. It stays so in its images. */
void gck_cuda_physical_look_anew(void);
bool gck_cuda_physical_recalls(void);

/* Memory that was forgotten and not had back is made anew, for what a copy in host memory has of it. */
struct gck_cuda_renewed {
	size_t n;        /* so many are made */
	CUdevice device; /* of the last, or of the one that failed; -1: there was nothing to make */
};

/* It goes, known to the driver or not, once nothing is mapped to it. */
void gck_cuda_physical_drop(struct gck_cuda_physical *p);

/* When the last one went, 0: none has. The driver has its memory free only a while after that. */
int64_t gck_cuda_physical_dropped_ns(void);

#endif
