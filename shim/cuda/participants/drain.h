/* SPDX-License-Identifier: Apache-2.0
 * The steps from a running process to one that an image can be taken of, and back. In the CUDA
 * thread. */
#ifndef GCK_CUDA_DRAIN_H
#define GCK_CUDA_DRAIN_H

#include <stdbool.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/link.h"

/* Called when a drain fails but cannot be undone yet, since the GPU's work must finish first. */
typedef void gck_cuda_fails_fn(void *arg, const struct gck_error *why);

/* Close the gate, wait until the GPU is idle, drain the participants, lock and checkpoint the
 * driver (cuda=image) or have it stay as it is (cuda=replay). 0: the process can be captured until
 * gck_cuda_resume, and holds no GPU with cuda=image. -1: it runs as before, and err says
 * why; or lost is set: it could not be brought back. fails may be called before that, once, by
 * any thread. */
int gck_cuda_drain(const struct gck_link_cuda_drain *order, gck_cuda_fails_fn *fails, void *arg,
		   bool *lost, struct gck_error *err) GCK_MUST_CHECK;

/* Bring the process back, here (source NULL) or in a process made from the image: device data
 * that the image lacks come from the source. -1: the GPU is lost; the gate stays closed. */
int gck_cuda_resume(gck_cuda_source_fn *source, void *arg, struct gck_error *err) GCK_MUST_CHECK;

/* Name what prevents a drain, of all participants. */
void gck_cuda_able(gck_cuda_obstacle_fn *tell, void *arg);

/* Free what was kept for an image, with the gate open again. It may take long. */
void gck_cuda_release(void);

/* Prepare for such a drain, which follows soon, while the program runs: from now on until the
 * drain, or gck_cuda_release, the program's calls wait for what they would queue behind. */
void gck_cuda_prepare(const struct gck_link_cuda_drain *request);

/* True: the drain can come, since what was queued when the preparation began is done, or (over: its
 * time has passed) cannot be seen. To be called again and again until true or over. */
bool gck_cuda_prepared(bool *over);

#endif
