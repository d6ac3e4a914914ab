/* SPDX-License-Identifier: Apache-2.0
 * The GPUs that a task sees. */
#ifndef GCK_VISIBLE_GPUS_H
#define GCK_VISIBLE_GPUS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"

/* Can it be used as it is: it comes out of an image, or from a program of another release. */
bool gck_gpus_sound(const struct gck_cuda_devices *l);

/* Asked of the driver by gpuckpt-gpus, a program beside this one, with the task's environment (entries
 * that end with NUL; NULL: this process's): a process that has used the driver could not be restored.
 * library: the driver's, as an image has it. */
int gck_ask_gpus(const char *library, const char *environment, size_t size, struct gck_cuda_devices *out,
		 struct gck_error *err);

#endif
