/* SPDX-License-Identifier: Apache-2.0
 * The participants of a checkpoint. Each function may be NULL. All but `able` and `prepare` run in
 * the CUDA thread, with the gate closed, no thread inside and the GPU idle. */
#ifndef GCK_CUDA_PARTICIPANT_H
#define GCK_CUDA_PARTICIPANT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/gate/context.h"

/* Called for each thing that prevents a checkpoint. The texts stay the callee's. */
typedef void gck_cuda_obstacle_fn(void *arg, const char *object, const char *reason,
				  const char *remedy);

/* Fetches the source of a restored process's device data: a socket and a ring (doc/shim-link.md)
 * for the caller to close. again: the last source ended too soon. It waits. -1: there is no
 * source. */
typedef int gck_cuda_source_fn(void *arg, bool again, int fds[2], struct gck_error *err);

struct gck_cuda_order {
	int64_t end_ns;    /* CLOCK_MONOTONIC: the drain must be done by then */
	uint64_t device_copy_max[GCK_CUDA_DEVICES_MAX]; /* bytes of copies that may stay on each
						   * device, to be read after the resume */
	uint64_t host_copy_max; /* bytes of host memory that copies may use */
	gck_cuda_source_fn *source; /* for a resume */
	void *source_arg;
	struct gck_cuda_contexts contexts; /* all live contexts, from before the first
					    * participant drains until the last one is back */
};

struct gck_cuda_participant {
	const char *name;
	/* It takes part only if the driver's own checkpoint follows (cuda=image). */
	bool image_only;
	/* Name what cannot be checkpointed now. Called at any time, while the program's threads
	 * run, so it may take only locks that they hold for a moment. Before a drain it is
	 * called with the gate closed; what it names then refuses the checkpoint with nothing
	 * touched. */
	void (*able)(gck_cuda_obstacle_fn *tell, void *arg);
	/* Prepare what takes long: a drain with such an order follows soon. The program runs.
	 * May work until order->end_ns. If the drain does not come, `release` is called. */
	void (*prepare)(const struct gck_cuda_order *order);
	/* Take from the driver, which is up, what it should not or cannot save. On failure this
	 * participant and those before it are resumed, so it need not undo its work. */
	int (*drain)(const struct gck_cuda_order *order, struct gck_error *err);
	/* Undo a drain, as far as it got, so that the program finds what it had. The driver is
	 * up again, in this process or (restored) in a process made from the image. Participants
	 * resume in the opposite order. A failure cannot be mended: err says what was lost. */
	int (*resume)(const struct gck_cuda_order *order, bool restored, struct gck_error *err);
	/* Free what was kept for an image, which was taken or never will be. The gate is open
	 * and the program's threads run. */
	void (*release)(void);
};

extern const struct gck_cuda_participant gck_cuda_memory_participant,
	gck_cuda_obstacles_participant, gck_cuda_unknown_participant, gck_cuda_limits_participant,
	gck_cuda_managed_participant, gck_cuda_pool_participant, gck_cuda_registration_participant;

#endif
