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

#include "common/base/encoding.h"
#include "storage/base/hash.h"

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

int gck_hash_parse(const char *text, struct gck_hash *h, struct gck_error *err)
{
	struct gck_hash x;

	if (!gck_unhex_number(text, 16, &x.hi) || !gck_unhex_number(text + 16, 16, &x.lo))
		return gck_fail(err, EINVAL, "\"%.32s\" is not a hash: 32 hex digits", text);
	if (text[GCK_HASH_TEXT - 1])
		return gck_fail(err, EINVAL, "\"%.40s\" is not a hash: it is too long", text);
	*h = x;
	return 0;
}
