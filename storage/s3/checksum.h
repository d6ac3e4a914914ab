/* SPDX-License-Identifier: Apache-2.0
 * Checksums that the server verifies before it takes what was sent. */
#ifndef GCK_CHECKSUM_H
#define GCK_CHECKSUM_H

#include <stddef.h>

/* Base64, to be given to free(). NULL: this machine cannot (no SSE 4.2, MD5 forbidden by FIPS mode,
 * no memory): the request is made without. */
char *gck_checksum_crc32c(const void *data, size_t size);
char *gck_checksum_md5(const void *data, size_t size);

#endif
