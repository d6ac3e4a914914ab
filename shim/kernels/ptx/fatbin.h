/* SPDX-License-Identifier: Apache-2.0
 * Fatbins, the files of nvcc's `fatbinary`: a module's code for several kinds of GPU, as PTX or
 * compiled (cubins), mostly compressed. NVIDIA documents no format; it is that of CUDA 11 to 13. */
#ifndef GCK_KERNELS_FATBIN_H
#define GCK_KERNELS_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* size: of the image; SIZE_MAX: of one in memory that tells its size, and may be the structure of a
 * compiled program that points to one. */

/* Whether it begins like that. */
bool gck_fatbin_is(const void *image, size_t size);

/* Where it is, and its size. NULL: of an unknown kind, or a part of one. */
const void *gck_fatbin_find(const void *image, size_t *size, struct gck_error *err) GCK_MUST_CHECK;

#define GCK_FATBIN_PTX 1
#define GCK_FATBIN_CUBIN 2
/* Flags of a part. */
#define GCK_FATBIN_THIS_GPU 0x100000    /* sm_90a: for no later one */
#define GCK_FATBIN_THIS_FAMILY 0x200000 /* sm_100f */

/* The head of a part. What is behind it up to its size is not needed; then comes the content. */
struct gck_fatbin_entry {
	uint16_t kind, version;
	uint32_t size;
	uint64_t content_size; /* with padding */
	uint32_t compressed_size, unused;
	uint32_t ptx_version, capability;
	uint32_t name, name_size;
	uint64_t flags, unused2;
	uint64_t text_size; /* of what is compressed */
};

/* The next part of a fatbin that was found. *at is 0 before the first. 1; 0: there is no more; -1:
 * sizes do not fit. */
int gck_fatbin_next(const void *fatbin, size_t size, size_t *at, struct gck_fatbin_entry *e,
		    const char **content, struct gck_error *err) GCK_MUST_CHECK;

/* What it was before it was compressed, and a NUL. To be freed. */
char *gck_fatbin_content(const struct gck_fatbin_entry *e, const char *content,
			 struct gck_error *err) GCK_MUST_CHECK;

/* The text that the driver would compile for a GPU of this compute capability (90: 9.0): that for
 * the highest one that is not above. To be freed. NULL without an error: there is none. */
char *gck_fatbin_ptx(const void *image, size_t size, unsigned capability, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
