/* SPDX-License-Identifier: Apache-2.0
 * The parts of the stand-in that have something to do for a checkpoint. Each function may be NULL; all
 * but `able` run in the CUDA thread, with the gate closed, nobody inside and the GPU idle. */
#ifndef GCK_CUDA_PART_H
#define GCK_CUDA_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* One thing that stands in the way of a checkpoint: object, reason, remedy (borrowed). */
typedef void gck_cuda_obstacle_fn(void *arg, const char *object, const char *reason,
				  const char *remedy);

struct gck_cuda_order {
	uint64_t seq;      /* of the checkpoint */
	int64_t end_ns;    /* CLOCK_MONOTONIC: by then the process must be drained */
};

struct gck_cuda_part {
	const char *name;
	/* Name what cannot be carried now. At any time, with the program's threads running: locks that
	 * they hold for a moment only. Before a drain it is asked with the gate closed, and what it
	 * names then refuses the checkpoint with nothing touched. */
	void (*able)(gck_cuda_obstacle_fn *tell, void *arg);
	/* The driver is up: put out of its reach what it should not or could not carry. A part that
	 * fails leaves things as it found them; those before it are resumed. */
	int (*drain)(const struct gck_cuda_order *order, struct gck_error *err);
	/* The driver is up again, in this process (which ran on), or, restored, in another one out of
	 * the image: put everything back, so that the program finds what it had. Runs after a
	 * successful drain of the part, and in the opposite order. In a process that ran on a failure
	 * cannot be mended: err says what was lost. */
	int (*resume)(bool restored, struct gck_error *err);
	/* The image's memory is written, or the checkpoint was given up: what was kept for it (a copy
	 * on the device) can go. The gate may be open, program threads running. */
	void (*release)(uint64_t seq);
};

extern const struct gck_cuda_part gck_cuda_memory_part, gck_cuda_alive_part, gck_cuda_unknown_part, gck_cuda_limits_part;

/* In the order in which they drain; NULL at the end. */
extern const struct gck_cuda_part *const gck_cuda_parts[];

/* What stands in the way, of all parts. */
void gck_cuda_able(gck_cuda_obstacle_fn *tell, void *arg);

#endif
