/* SPDX-License-Identifier: Apache-2.0
 * The work that the program had queued when a preparation, or `able`, began to look. */
#ifndef GCK_CUDA_BACKLOG_H
#define GCK_CUDA_BACKLOG_H

#include <stdbool.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"
#include "shim/cuda/gate/context.h"

/* Begin: the next look marks what is queued then. */
void gck_cuda_backlog_begin(void);

/* Look whether all of it is done. Call with the gate closed and no thread inside. */
bool gck_cuda_backlog_done(const struct gck_cuda_contexts *all) GCK_MUST_CHECK;

/* Called when a context ends. */
void gck_cuda_backlog_forget(CUcontext context);

#endif
