/* SPDX-License-Identifier: Apache-2.0
 * What is taken of slabs, to where the snapshot's table says, and back, all devices at a time; the program stands
 * at the gate. */
#ifndef GCK_CUDA_SNAPSHOT_COPY_H
#define GCK_CUDA_SNAPSHOT_COPY_H

#include "shim/cuda/snapshot/snapshot.h"

/* All of the table, not beyond order->end_ns. */
int gck_cuda_copy_out(const struct gck_cuda_order *order, struct gck_error *err);

/* What host memory has back to where it was, and what is seen through windows. */
int gck_cuda_copy_in(struct gck_error *err);

#endif
