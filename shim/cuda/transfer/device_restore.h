/* SPDX-License-Identifier: Apache-2.0
 * In a restored process: what was kept on devices, and so is in no page of the image, is fetched from a
 * process of the agent's (doc/shim-link.md, "Device data"). */
#ifndef GCK_CUDA_DEVICE_RESTORE_H
#define GCK_CUDA_DEVICE_RESTORE_H

#include "shim/cuda/base/participant.h"

/* Into the slabs at its addresses, of all extents of the snapshot's table that were kept. A source that ends
 * before all is there is asked for again (order->source). -1: there is none, or it failed. */
int gck_cuda_fill(const struct gck_cuda_order *order, struct gck_error *err);

#endif
