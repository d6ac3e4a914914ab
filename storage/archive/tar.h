/* SPDX-License-Identifier: Apache-2.0
 * Headers of POSIX's ustar format, as far as an image in a file needs them. */
#ifndef GCK_TAR_H
#define GCK_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_TAR_BLOCK 512
#define GCK_TAR_NAME 257 /* prefix, '/', name and the NUL */

/* A regular file's, 0600. dir ("a/b/c") and name are parted where the header has its two fields. */
int gck_tar_header(char block[GCK_TAR_BLOCK], const char *dir, const char *name, uint64_t size,
		   struct gck_error *err);

/* Read one again. *end: this is a block of zeros. */
int gck_tar_parse(const char block[GCK_TAR_BLOCK], char name[GCK_TAR_NAME], uint64_t *size,
		  bool *end, struct gck_error *err);

/* Bytes with what fills the last block. */
static inline uint64_t gck_tar_padded(uint64_t size)
{
	return (size + GCK_TAR_BLOCK - 1) / GCK_TAR_BLOCK * GCK_TAR_BLOCK;
}

#endif
