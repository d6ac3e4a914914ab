/* SPDX-License-Identifier: Apache-2.0
 * Whether the stand-in for the CUDA driver goes in front of a step's tasks. */
#ifndef GCK_SPANK_CUDA_H
#define GCK_SPANK_CUDA_H

#include "common/base/error.h"
#include "common/base/options.h"

#define GCK_CUDA_DEVICE "/dev/nvidiactl" /* there with the driver's module */

/* library: the stand-in; device: GCK_CUDA_DEVICE. 1: it does, 0: it does not, -1: it was asked for and
 * is not there. */
int gck_cuda_wanted(enum gck_gpu choice, const char *library, const char *device,
		    struct gck_error *err);

#endif
