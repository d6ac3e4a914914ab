/* SPDX-License-Identifier: Apache-2.0
 * Whether one GPU can stand for another. The driver's own restore wants one of the same type. With
 * cuda=replay a program goes on with what it knows of its GPU: the other one must have what it may
 * rely on (shim/cuda/base/device_properties.h), code for it, and room for the program's data. */
#ifndef GCK_GPU_TYPE_H
#define GCK_GPU_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/state.h"

/* For device i of the image. code: the list at s->code. -1: what is missing. */
int gck_gpu_type_suits(const struct gck_cuda_state *s, const char *code, uint32_t i,
		       const struct gck_cuda_device *is, struct gck_error *err) GCK_MUST_CHECK;

/* What the user is told of another type: "a H100 and was a H200: ..." false: there is nothing. */
#define GCK_GPU_TYPE_TEXT 512
bool gck_gpu_type_differs(const struct gck_cuda_device *was, const struct gck_cuda_device *is,
			  char text[GCK_GPU_TYPE_TEXT]);

#endif
