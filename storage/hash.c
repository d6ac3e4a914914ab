/* SPDX-License-Identifier: Apache-2.0
 * XXH3-128 of bytes and of JSON, and its text form. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#ifdef HAVE_XXH_X86DISPATCH
#include <xxh_x86dispatch.h> /* the same functions, by the widest vectors that the CPU has */
#endif

#include "storage/store.h"

struct gck_hash gck_hash_bytes(const void *data, size_t size)
{
	XXH128_hash_t h = XXH3_128bits(data, size);

	return (struct gck_hash){ .hi = h.high64, .lo = h.low64 };
}

void gck_hash_text(struct gck_hash h, char text[GCK_HASH_TEXT])
{
	snprintf(text, GCK_HASH_TEXT, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}

void gck_hash_json(const json_t *value, char text[GCK_HASH_TEXT])
{
	char *dump = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	gck_hash_text(gck_hash_bytes(dump ? dump : "", dump ? strlen(dump) : 0), text);
	free(dump);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gck_hash_parse(const char *text, struct gck_hash *h, struct gck_error *err)
{
	uint64_t half[2] = { 0, 0 };

	for (int i = 0; i < GCK_HASH_TEXT - 1; i++) {
		int d = digit(text[i]);

		if (d < 0)
			return gck_fail(err, EINVAL, "\"%.32s\" is not a hash: 32 hex digits",
					text);
		half[i / 16] = half[i / 16] << 4 | (unsigned)d;
	}
	if (text[GCK_HASH_TEXT - 1])
		return gck_fail(err, EINVAL, "\"%.40s\" is not a hash: it is too long", text);
	*h = (struct gck_hash){ .hi = half[0], .lo = half[1] };
	return 0;
}
