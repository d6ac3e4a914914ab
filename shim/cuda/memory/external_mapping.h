/* SPDX-License-Identifier: Apache-2.0
 * Kept memory (physical.h) imported as external memory and mapped at addresses of the driver's
 * choice. The driver allows this even in a process that it moved to another device, where it can
 * import nothing else (doc/cuda-driver.md). */
#ifndef GCK_CUDA_EXTERNAL_MAPPING_H
#define GCK_CUDA_EXTERNAL_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/memory/physical.h"

/* The largest memory to map: with more, a driver that has moved the process may end it. */
#define GCK_CUDA_EXTERNAL_MAPPING_MAX ((uint64_t)256 << 20)

struct gck_cuda_external_mapping {
	CUexternalMemory memory;
	CUdeviceptr at; /* 0: it is closed */
};

/* Map all of the memory, which has that size, in the current context, of its device. naps: see
 * retry.h. */
CUresult gck_cuda_external_mapping_open(struct gck_cuda_external_mapping *w,
					const struct gck_cuda_physical *p, uint64_t size, int naps)
	GCK_MUST_CHECK;

/* Unmap it, in the context that it was opened in; NULL: that context has ended, and the mapping
 * with it. Waits until the context has finished its work. */
CUresult gck_cuda_external_mapping_close(struct gck_cuda_external_mapping *w, CUcontext context);

/* Whether external mappings work on a device. A restored process probes each device once, with a
 * context of it current, the gate closed and the GPU idle. Before the probe: false. */
void gck_cuda_external_mappings_reset(void);
void gck_cuda_external_mappings_probe(CUdevice device);
bool gck_cuda_external_mappings_work(CUdevice device);

#endif
