/* SPDX-License-Identifier: Apache-2.0
 * How the driver comes through a checkpoint and a restart. Where its library is, is decided for a
 * process's life; which engine a checkpoint uses, if there are two, at each checkpoint. All but
 * `able` run in the CUDA thread, with the gate closed and the GPU idle. */
#ifndef GCK_CUDA_ENGINE_H
#define GCK_CUDA_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/load.h"

struct gck_cuda_engine {
	/* As a participant's. */
	void (*able)(gck_cuda_obstacle_fn *tell, void *arg);
	/* What speaks against it in a process that can use the other one. NULL: nothing. */
	void (*doubt)(gck_cuda_obstacle_fn *tell, void *arg);
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
extern const struct gck_cuda_loader gck_cuda_replay_loader;

/* Changes what a library that was just loaded calls, for managed memory and moved devices. */
void gck_cuda_library_hooks(void);

/* The engine of the checkpoint under way, or of the last one. */
const struct gck_cuda_engine *gck_cuda_engine(void);

/* The engine that this process can use now; NULL: none, and what prevents each is told. Takes only
 * locks that the program's threads hold for a moment. */
const struct gck_cuda_engine *gck_cuda_engine_able(gck_cuda_obstacle_fn *tell, void *arg);

/* Names what makes a checkpoint have the driver in its image, in a process that can do without. */
void gck_cuda_engine_tell(gck_cuda_obstacle_fn *tell, void *arg);

/* For the next checkpoint. */
void gck_cuda_engine_use(const struct gck_cuda_engine *engine);

#endif
