/* SPDX-License-Identifier: Apache-2.0
 * Restore: which GPUs a rank comes back on (private to restore*.c and its test). */
#ifndef GCK_GPU_ASSIGNMENT_H
#define GCK_GPU_ASSIGNMENT_H

#include "common/base/error.h"
#include "shim/cuda/base/state.h"

struct gck_restore;

/* For each device that the image's process saw one that the new task sees, into s->onto and nonto:
 * the same ones if it sees all of them, else those at the same places; where it sees more, the places that
 * CUDA_VISIBLE_DEVICES had named to the program. -1 if they do not suit, nothing changed: another
 * driver (a checkpoint is only for the same), too few, another type. */
int gck_restore_gpus_choose(struct gck_cuda_state *s, const struct gck_cuda_devices *here,
			    struct gck_error *err);

/* With the image's memory there: ask what the new task sees, choose, and tell the image's stand-in, whose
 * struct gck_cuda_state is at the address. */
int gck_restore_gpus(struct gck_restore *r, uint64_t address, struct gck_error *err);

#endif
