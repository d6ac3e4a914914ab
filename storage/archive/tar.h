/* SPDX-License-Identifier: Apache-2.0
 * Headers of POSIX's ustar format, as far as an image in a file needs them. */
#ifndef GCK_TAR_H
#define GCK_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_TAR_BLOCK 512
#define GCK_TAR_NAME 257 /* prefix, '/', name and the NUL */

/* Make the header of a regular file with mode 0600. dir ("a/b/c") and name fill the header's two
 * fields. */
GCK_MUST_CHECK int gck_tar_header(char block[GCK_TAR_BLOCK], const char *dir, const char *name,
				  uint64_t size, struct gck_error *err);

/* Parse a header. *end: it is a block of zeros. */
GCK_MUST_CHECK int gck_tar_parse(const char block[GCK_TAR_BLOCK], char name[GCK_TAR_NAME],
				 uint64_t *size, bool *end, struct gck_error *err);

/* The size with the padding of the last block. */
static inline uint64_t gck_tar_padded(uint64_t size)
{
	return (size + GCK_TAR_BLOCK - 1) / GCK_TAR_BLOCK * GCK_TAR_BLOCK;
}

#endif
