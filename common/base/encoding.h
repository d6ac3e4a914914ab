/* SPDX-License-Identifier: Apache-2.0
 * Text encodings: base64 and hexadecimal digits for bytes, and UTF-8 that JSON can carry. */
#ifndef GCK_ENCODING_H
#define GCK_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* ---- base64 (RFC 4648, with padding, without line ends) ------------------------------------- */

/* Encode size bytes as a text; free() it. NULL without memory. */
char *gck_base64_text(const void *bytes, size_t size);

/* At most this many bytes are in a text of this length. */
#define GCK_BASE64_BYTES_MAX(length) ((length) / 4 * 3)

/* Decode a text. Returns the number of bytes, or -1 if the text is not base64. */
GCK_MUST_CHECK long gck_base64_bytes(const char *text, size_t length, void *bytes);

/* ---- hexadecimal digits --------------------------------------------------------------------- */

/* The text of a value is unique: capital letters are refused. */
#define GCK_HEX_DIGITS "0123456789abcdef"

/* Write 2 n digits and a NUL. */
void gck_hex(const void *bytes, size_t n, char *text);

/* Decode the text's first 2 n digits; false if it has fewer, and bytes may be changed. bytes may
 * begin at the text's second digit. */
GCK_MUST_CHECK bool gck_unhex(const char *text, size_t n, void *bytes);

/* Parse the text's first `digits` digits (at most 16) as a number; false if it has fewer. */
GCK_MUST_CHECK bool gck_unhex_number(const char *text, unsigned digits, uint64_t *number);

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

/* Make the text valid UTF-8, in place: an invalid byte becomes '?', and a character that the text's
 * end cuts off is dropped. */
void gck_utf8_sanitize(char *text);

#endif
