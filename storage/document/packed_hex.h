/* SPDX-License-Identifier: Apache-2.0
 * A long text of hex digits as a JSON value of half its length: a string that is no text, but a head and
 * two digits a byte. It begins with a NUL, which no text that was parsed has (rows_json.c). */
#ifndef GCK_PACKED_HEX_H
#define GCK_PACKED_HEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define GCK_PACKED_HEX_HEAD 2 /* a NUL; whether the last byte has one digit only */

/* Bytes of such a value, and its head. */
size_t gck_packed_hex_size(size_t digits);
void gck_packed_hex_head(unsigned char *value, size_t digits);

/* Is it one, and of how many digits? */
bool gck_packed_hex_is(const json_t *value);
size_t gck_packed_hex_digits(const json_t *value);

/* Make one of a text, whose second byte may be where the value's head ends; false: not all are hex digits.
 * And the text again, with a NUL. */
bool gck_packed_hex_pack(const char *text, size_t digits, unsigned char *value);
void gck_packed_hex_text(const unsigned char *value, size_t digits, char *text);

#endif
