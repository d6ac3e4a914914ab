/* SPDX-License-Identifier: Apache-2.0
 * Ranks of a node that share a device: a rank whose program lacks memory there asks the agent to
 * have the others give up the snapshots that they keep on it (doc/shim-link.md, RECLAIM). */
#ifndef GCK_CUDA_NODE_RECLAIM_H
#define GCK_CUDA_NODE_RECLAIM_H

#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/inside/link.h"

/* Ask for memory of that device (CU_DEVICE_INVALID: of the current context's). For a thread of
 * the program, inside the gate, without locks. Waits for the answers, ten seconds at most. True:
 * another rank gave something up, and a retry is worth it. */
bool gck_cuda_node_reclaim(CUdevice device);

/* In the CUDA thread: another rank asks. drained: the driver holds no GPU. True: this rank gave
 * up what it kept on that device. */
bool gck_cuda_node_reclaim_serve(const struct gck_inside_link *link,
				 const struct gck_inside_message *m, bool drained);

#endif
