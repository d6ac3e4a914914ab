/* SPDX-License-Identifier: Apache-2.0
 * The thread gpuckpt-data: serves a snapshot that stands (standing.h) to a process of the agent's, over a
 * socket and a ring (doc/shim-link.md, "Device data"). For the CUDA thread. */
#ifndef GCK_CUDA_TRANSFER_H
#define GCK_CUDA_TRANSFER_H

#include "shim/cuda/base/participant.h"

/* The gate is open: serve over these descriptors, which are taken over. Without a thread the snapshot goes,
 * and the reader finds the socket closed. */
void gck_cuda_data_serve(const int fds[2]);

/* Before another drain: the thread is gone afterwards, and so is the snapshot. */
void gck_cuda_data_end(void);

/* In a child by fork, which has neither. */
void gck_cuda_data_forked(void);

/* Into the slabs at its addresses, of all extents of the snapshot's table that were kept. A source that ends
 * before all is there is asked for again (order->source). -1: there is none, or it failed. */
int gck_cuda_device_restore(const struct gck_cuda_order *order, struct gck_error *err);

#endif
