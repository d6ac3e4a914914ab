/* SPDX-License-Identifier: Apache-2.0
 * PTX in fatbins, the files of nvcc's `fatbinary`: a kernel's code for several kinds of GPU, as
 * PTX or compiled, mostly compressed. NVIDIA documents no format; it is that of CUDA 11 to 13. */
#ifndef GCK_KERNELS_FATBIN_H
#define GCK_KERNELS_FATBIN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

/* size: of the image; SIZE_MAX: of one in memory that tells its size, and may be the structure of a
 * compiled program that points to one. */

/* Whether it begins like that. */
bool gck_fatbin_is(const void *image, size_t size);

/* The text that the driver would compile for a GPU of this compute capability (90: 9.0): that for
 * the highest one that is not above. To be freed. NULL without an error: there is none. */
char *gck_fatbin_ptx(const void *image, size_t size, unsigned capability, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
