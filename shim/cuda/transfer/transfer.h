/* SPDX-License-Identifier: Apache-2.0
 * Device data between this process and one of the agent's, over a socket and a ring
 * (doc/shim-link.md, "Device data"): the thread gpuckpt-data serves the copy that stands
 * (device_copy.h), and a restored process is filled. For the CUDA thread. */
#ifndef GCK_CUDA_TRANSFER_H
#define GCK_CUDA_TRANSFER_H

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"

/* Serve over these descriptors, which are taken over. The gate is open. Without a thread the
 * copy ends, and the reader finds the socket closed. */
void gck_cuda_data_serve(const int fds[2]);

/* End the thread and the copy before another drain. */
void gck_cuda_data_end(void);

/* In a child by fork, which has neither. */
void gck_cuda_data_forked(void);

/* Fill the slabs of a restored process, at their addresses, with all extents of the snapshot's
 * table that were kept. A source that ends too soon is asked for again (order->source). -1:
 * there is no source, or it failed. */
int gck_cuda_device_restore(const struct gck_cuda_order *order, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
