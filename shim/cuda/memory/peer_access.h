/* SPDX-License-Identifier: Apache-2.0
 * Copies between devices. A copy may name memory of any device, whatever context is current: the driver finds
 * its own by the address. Memory that is mapped, as slabs are, it refuses to devices that have no access. */
#ifndef GCK_CUDA_PEER_ACCESS_H
#define GCK_CUDA_PEER_ACCESS_H

#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"

/* All devices with a context that can have access to others' slabs have it from now on. False: none has come
 * to it since the thread asked last. */
bool gck_cuda_reach(void);

/* A call that copies or fills: again where it may have failed for that. */
#define GCK_CUDA_COPY(rc, call) \
	do \
		(rc) = (call); \
	while ((rc) == CUDA_ERROR_INVALID_VALUE && gck_cuda_reach())

#endif
