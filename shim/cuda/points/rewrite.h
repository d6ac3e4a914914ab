/* SPDX-License-Identifier: Apache-2.0
 * PTX that the program brings itself: the kernels that kernels= names (GPUCKPT_KERNELS in the
 * environment) get points before the driver has it, as by `gckcc --auto`. */
#ifndef GCK_CUDA_REWRITE_H
#define GCK_CUDA_REWRITE_H

#include <stddef.h>

#include "shim/cuda/base/cuda_api.h"

/* The text with points that takes the place of an image: of text, a fatbin, or a file of either.
 * To be freed. NULL: the image stays as it is. size: SIZE_MAX if only the image itself tells it.
 * Call them outside of the gate: they may take seconds. */
char *gck_cuda_with_points(const void *image, size_t size);
char *gck_cuda_file_with_points(const char *path);

/* The driver did not take the text that one of them made. */
void gck_cuda_points_not_taken(CUresult rc);

/* Name what was to have points and has none. At any time. */
typedef void gck_cuda_no_points_fn(void *arg, const char *object, const char *why);
void gck_cuda_without_points_tell(gck_cuda_no_points_fn *tell, void *arg);

#endif
