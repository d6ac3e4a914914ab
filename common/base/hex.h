/* SPDX-License-Identifier: Apache-2.0
 * Bytes and numbers as hexadecimal digits. What has one meaning has one text: capital letters are refused. */
#ifndef GCK_HEX_H
#define GCK_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GCK_HEX_DIGITS "0123456789abcdef"

/* 2 n digits and a NUL. */
void gck_hex(const void *bytes, size_t n, char *text);

/* The bytes of the text's first 2 n digits; false if it has not as many. bytes may have been written to;
 * they may begin at the text's second digit. */
bool gck_unhex(const char *text, size_t n, void *bytes);

/* The number of the text's first digits, 16 at most; false if it has not as many. */
bool gck_unhex_number(const char *text, unsigned digits, uint64_t *number);

#endif
