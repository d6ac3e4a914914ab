/* SPDX-License-Identifier: Apache-2.0
 * Base64. */
#include "common/base/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *gck_base64_text(const void *bytes, size_t size)
{
	const unsigned char *in = bytes;
	char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		size_t n = size - i < 3 ? size - i : 3;
		uint32_t word = (uint32_t)in[i] << 16 | (n > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
				(n > 2 ? in[i + 2] : 0);

		*to++ = digits[word >> 18];
		*to++ = digits[word >> 12 & 63];
		*to++ = n > 1 ? digits[word >> 6 & 63] : '=';
		*to++ = n > 2 ? digits[word & 63] : '=';
	}
	*to = '\0';
	return text;
}

static int value_of(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Four characters; how many bytes they are, or -1. */
static int group(const char *text, unsigned char *out)
{
	int n = text[3] != '=' ? 3 : text[2] != '=' ? 2 : 1;
	uint32_t word = 0;

	for (int i = 0; i < 4; i++) {
		int v = i <= n ? value_of(text[i]) : text[i] == '=' ? 0 : -1;

		if (v < 0)
			return -1;
		word = word << 6 | (uint32_t)v;
	}
	for (int i = 0; i < n; i++)
		out[i] = (unsigned char)(word >> (16 - 8 * i));
	return n;
}

long gck_base64_bytes(const char *text, size_t length, void *bytes)
{
	unsigned char *out = bytes;

	if (length % 4)
		return -1;
	for (size_t i = 0; i < length; i += 4) {
		unsigned char three[3];
		int n = group(text + i, three);

		if (n < 0 || (n < 3 && i + 4 < length))
			return -1;
		memcpy(out, three, (size_t)n);
		out += n;
	}
	return out - (unsigned char *)bytes;
}
