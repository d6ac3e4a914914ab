/* SPDX-License-Identifier: Apache-2.0
 * Bytes as text (RFC 4648, with padding, no line ends): JSON has no bytes. */
#ifndef GCK_BASE64_H
#define GCK_BASE64_H

#include <stddef.h>

/* Text for size bytes, malloced; NULL without memory. */
char *gck_base64_text(const void *bytes, size_t size);

/* Room for the bytes of a text of this length. */
#define GCK_BASE64_BYTES_MAX(length) ((length) / 4 * 3)

/* The bytes of a text; their number, or -1 if the text is none of ours. */
long gck_base64_bytes(const char *text, size_t length, void *bytes);

#endif
