/* SPDX-License-Identifier: Apache-2.0
 * The steps from a running process to one that an image can be taken of, and back. In the CUDA
 * thread. */
#ifndef GCK_CUDA_DRAIN_H
#define GCK_CUDA_DRAIN_H

#include <stdbool.h>

#include "shim/cuda/base/participant.h"
#include "shim/link.h"

/* A drain fails, but what the GPU was given for it must come to its end before it is taken back. */
typedef void gck_cuda_fails_fn(void *arg, const struct gck_error *why);

/* Gate shut, GPU idle, parts drained, the driver locked and checkpointed. 0: the process holds no GPU
 * until gck_cuda_resume. -1: it runs as before, unharmed, and err says why; or lost is set: it could
 * not be brought back. fails may be called before that, once, by any thread. */
int gck_cuda_drain(const struct gck_link_cuda_drain *order, gck_cuda_fails_fn *fails, void *arg, bool *lost,
		   struct gck_error *err);

/* And back, here (source NULL) or in a process made of the image, where data that are in no page of it are
 * had from the source. -1: the process has lost its GPU; the gate stays closed. */
int gck_cuda_resume(gck_cuda_source_fn *source, void *arg, struct gck_error *err);

/* What stands in the way of a drain, of all participants. */
void gck_cuda_able(gck_cuda_obstacle_fn *tell, void *arg);

/* After either, where the gate is open again: what was kept for an image goes, which may take its time. */
void gck_cuda_release(void);

/* A drain so asked for is about to come; the program runs. */
void gck_cuda_expect(const struct gck_link_cuda_drain *asked);

#endif
