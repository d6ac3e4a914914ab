/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/utf8.h"

#include <stdbool.h>
#include <stddef.h>

/* Of the character that this byte begins; 0: it begins none. */
static size_t length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Neither longer than need be, nor a surrogate, nor above the last character. */
static bool is_allowed(const unsigned char *p)
{
	switch (p[0]) {
	case 0xe0:
		return p[1] >= 0xa0;
	case 0xed:
		return p[1] < 0xa0;
	case 0xf0:
		return p[1] >= 0x90;
	case 0xf4:
		return p[1] < 0x90;
	default:
		return true;
	}
}

void gck_utf8_sanitize(char *text)
{
	unsigned char *p = (unsigned char *)text;

	while (*p) {
		size_t n = length(*p), there = 1;

		while (there < n && (p[there] & 0xc0) == 0x80)
			there++;
		if (n && there == n && is_allowed(p))
			p += n;
		else if (there < n && !p[there])
			*p = '\0';
		else
			*p++ = '?';
	}
}
