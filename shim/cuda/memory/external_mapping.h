/* SPDX-License-Identifier: Apache-2.0
 * Memory that is kept (physical.h), seen at addresses of the driver's choice: as external memory, which it takes also in
 * a process that was moved to another device, where it has nothing else back (doc/cuda-driver.md). */
#ifndef GCK_CUDA_EXTERNAL_MAPPING_H
#define GCK_CUDA_EXTERNAL_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda/memory/physical.h"

/* Of no larger memory: a driver that has moved the process may end it. */
#define GCK_CUDA_EXTERNAL_MAPPING_MAX ((uint64_t)256 << 20)

struct gck_cuda_external_mapping {
	CUexternalMemory memory;
	CUdeviceptr at; /* 0: it is closed */
};

/* All of the memory, which has that size. In a context of its device's, which is current. naps: physical.h. */
CUresult gck_cuda_external_mapping_open(struct gck_cuda_external_mapping *w, const struct gck_cuda_physical *p, uint64_t size, int naps);

/* In the context that it was opened in; NULL: that has ended, and the window with it. Waits for what the context was
 * given to do. */
CUresult gck_cuda_external_mapping_close(struct gck_cuda_external_mapping *w, CUcontext context);

/* Has a device's memory one? A restored process tries it once, with a context of the device's current, the gate closed and
 * the GPU idle; until then: no. */
void gck_cuda_external_mappings_reset(void);
void gck_cuda_external_mappings_probe(CUdevice device);
bool gck_cuda_external_mappings_work(CUdevice device);

#endif
