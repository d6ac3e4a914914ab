/* SPDX-License-Identifier: Apache-2.0
 * Physical memory of a device with a descriptor in the vault (fd_vault.h): the driver can forget
 * it and recall it with its contents. The caller maps it. No locks. */
#ifndef GCK_CUDA_PHYSICAL_H
#define GCK_CUDA_PHYSICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

struct gck_cuda_physical {
	CUmemGenericAllocationHandle handle; /* 0: the driver does not know it */
	uint64_t vault_name;                 /* the descriptor's name in the vault; 0: none, so
					      * the driver must not forget the memory */
};

/* In place of a name, where the driver may be loaded anew at a restart: there is no descriptor, and
 * a checkpoint in which the driver forgets the memory must not be. */
#define GCK_CUDA_STAYS UINT64_MAX

/* Make new memory that can be exported as a descriptor, whatever else prop asks for. */
CUresult gck_cuda_physical_make(struct gck_cuda_physical *p, uint64_t size,
				const CUmemAllocationProp *prop) GCK_MUST_CHECK;
CUresult gck_cuda_physical_keep(struct gck_cuda_physical *p, CUdevice device);

/* Make the driver forget the memory, and recall it. naps: how long to wait for a descriptor
 * (retry.h); without one recall returns CUDA_ERROR_OPERATING_SYSTEM, with errno. */
CUresult gck_cuda_physical_forget(struct gck_cuda_physical *p);
CUresult gck_cuda_physical_recall(struct gck_cuda_physical *p, int naps) GCK_MUST_CHECK;

/* A new descriptor of the memory, for the caller to close; -1 with errno. */
int gck_cuda_physical_descriptor(const struct gck_cuda_physical *p, int naps) GCK_MUST_CHECK;

/* Whether the driver can recall memory. A restored process, which may be on other devices, finds
 * out with the first memory kept on each device (device_instance.h). The answer stays the same in
 * its later images. */
void gck_cuda_physical_reset(void);
bool gck_cuda_physical_recalls(void);

/* Memory that could not be recalled and was made anew, to be filled from a copy in host memory. */
struct gck_cuda_renewed {
	size_t n;        /* how many were made */
	CUdevice device; /* of the last one, or of the one that failed; -1: nothing had to be
			  * made */
};

/* The driver is gone, and the memory with it. */
void gck_cuda_physical_lost(struct gck_cuda_physical *p);

/* Free the memory, known to the driver or not, after all its mappings. */
void gck_cuda_physical_drop(struct gck_cuda_physical *p);

/* How much memory there is without a descriptor. */
uint64_t gck_cuda_physical_stays(void);

/* When memory was last dropped; 0: never. The driver has it free only a while after that. */
int64_t gck_cuda_physical_dropped_ns(void);

#endif
