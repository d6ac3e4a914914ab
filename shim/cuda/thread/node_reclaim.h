/* SPDX-License-Identifier: Apache-2.0
 * Ranks of a node that share a device: one whose program finds no memory there asks the agent to have the others
 * give up the snapshots that they keep on it (doc/shim-link.md, NEED). */
#ifndef GCK_CUDA_NODE_RECLAIM_H
#define GCK_CUDA_NODE_RECLAIM_H

#include <stdbool.h>

#include "shim/cuda/base/cuda_api.h"
#include "shim/inside/link.h"

/* A thread of the program's, inside the gate, without locks, found no memory on that device, CU_DEVICE_INVALID: its
 * current context's. True: another rank has given something back since, and it is worth another try. Waits for the
 * others' answers, ten seconds at most. */
bool gck_cuda_node_reclaim(CUdevice device);

/* The CUDA thread hears of such a need of another rank's; drained: the driver has no GPU. True: what this rank
 * kept on that device is given up. */
bool gck_cuda_node_reclaim_serve(const struct gck_inside_link *link, const struct gck_inside_message *m, bool drained);

#endif
