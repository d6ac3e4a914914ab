/* SPDX-License-Identifier: Apache-2.0
 * The parts of the stand-in that have something to do for a checkpoint. Each function may be NULL; all
 * but `able` run in the CUDA thread, with the gate closed, nobody inside and the GPU idle. */
#ifndef GCK_CUDA_PARTICIPANT_H
#define GCK_CUDA_PARTICIPANT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/gate/context.h"

/* One thing that stands in the way of a checkpoint: object, reason, remedy (borrowed). */
typedef void gck_cuda_obstacle_fn(void *arg, const char *object, const char *reason,
				  const char *remedy);

/* Where data of a restored process come from: a socket and a ring (doc/shim-link.md), the caller's to close.
 * again: the last ones have ended too soon. Waits. -1: there is none. */
typedef int gck_cuda_source_fn(void *arg, bool again, int fds[2], struct gck_error *err);

struct gck_cuda_order {
	int64_t end_ns;    /* CLOCK_MONOTONIC: by then the process must be drained */
	uint64_t keep_most[GCK_CUDA_DEVICES_MAX]; /* bytes of copies that may stay on each device: they are read
			    * after the resume */
	uint64_t host_most; /* bytes of host memory that copies may take */
	gck_cuda_source_fn *source; /* of a resume */
	void *source_arg;
	struct gck_cuda_contexts contexts; /* all that live, from before the first part drains until
					    * the last one is back */
};

struct gck_cuda_participant {
	const char *name;
	/* Name what cannot be carried now. At any time, with the program's threads running: locks that
	 * they hold for a moment only. Before a drain it is asked with the gate closed, and what it
	 * names then refuses the checkpoint with nothing touched. */
	void (*able)(gck_cuda_obstacle_fn *tell, void *arg);
	/* A drain with such an order is about to come, and the program runs: get ready what takes long.
	 * Until order->end_ns at most. `release` follows if it does not come. */
	void (*expect)(const struct gck_cuda_order *order);
	/* The driver is up: put out of its reach what it should not or could not carry. If it fails,
	 * this part and those before it are resumed: it need not take back what it did. */
	int (*drain)(const struct gck_cuda_order *order, struct gck_error *err);
	/* The driver is up again, in this process (which ran on), or, restored, in another one out of
	 * the image: put everything back that a drain has changed, as far as it came, so that the
	 * program finds what it had. In the opposite order. A failure cannot be mended, in a process
	 * that ran on either: err says what was lost. */
	int (*resume)(const struct gck_cuda_order *order, bool restored, struct gck_error *err);
	/* The gate is open again, the program's threads run: what was kept for an image, which is
	 * taken or will never be, can go. */
	void (*release)(void);
};

extern const struct gck_cuda_participant gck_cuda_memory_participant, gck_cuda_obstacles_participant, gck_cuda_unknown_participant, gck_cuda_limits_participant,
	gck_cuda_managed_participant, gck_cuda_pool_participant;

#endif
