/* SPDX-License-Identifier: Apache-2.0
 * A long text of hex digits as a JSON value of half its length: a string that holds a head and one
 * byte for two digits. It begins with a NUL, which no parsed text does (json.c). */
#ifndef GCK_PACKED_HEX_H
#define GCK_PACKED_HEX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define GCK_PACKED_HEX_HEAD 2 /* a NUL; whether the last byte has one digit only */

/* The size of such a value in bytes, and its head. */
size_t gck_packed_hex_size(size_t digits);
void gck_packed_hex_head(unsigned char *value, size_t digits);

/* Is a value packed hex, and how many digits does it have? */
bool gck_packed_hex_is(const json_t *value);
size_t gck_packed_hex_digits(const json_t *value);

/* Pack a text, whose second byte may lie where the value's head ends. false: not all of it are hex
 * digits. gck_packed_hex_text unpacks it, with a NUL. */
bool gck_packed_hex_pack(const char *text, size_t digits, unsigned char *value);
void gck_packed_hex_text(const unsigned char *value, size_t digits, char *text);

#endif
