/* SPDX-License-Identifier: Apache-2.0
 * How the driver comes through a checkpoint and a restart. A process keeps its engine for life.
 * All but `able` run in the CUDA thread, with the gate closed and the GPU idle. */
#ifndef GCK_CUDA_ENGINE_H
#define GCK_CUDA_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/load.h"

struct gck_cuda_engine {
	/* The name of cuda= for it. */
	const char *name;
	const struct gck_cuda_loader *loader;
	/* As a participant's. */
	void (*able)(gck_cuda_obstacle_fn *tell, void *arg);
	/* Ready the driver for an image, by end_ns. -1: it is as it was. */
	int (*down)(int64_t end_ns, struct gck_error *err);
	/* Undo that, in this process or (restored) in one made from the image. The program's
	 * objects are there again, but not yet the device memory of slabs and of cuMemCreate. */
	int (*up)(bool restored, struct gck_error *err);
	/* In a process made from an image, when device memory is there again. NULL: nothing. */
	int (*complete)(struct gck_error *err);
	/* The image was taken or never will be; the program runs. NULL: nothing to do. */
	void (*release)(void);
};

extern const struct gck_cuda_engine gck_cuda_image_engine, gck_cuda_replay_engine;

/* The engine of this process: GPUCKPT_CUDA in the environment of its first call. */
const struct gck_cuda_engine *gck_cuda_engine(void);

#endif
