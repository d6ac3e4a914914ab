/* SPDX-License-Identifier: Apache-2.0
 * An object while it is made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xxhash.h>

#include "storage/parcel.h"

#define HUGE_PAGE (2u * 1024 * 1024)

struct gck_parcel *gck_parcel_new(struct gck_error *err)
{
	struct gck_parcel *x = calloc(1, sizeof *x);

	if (x)
		x->room = aligned_alloc(HUGE_PAGE, GCK_OBJECT_MAX);
	if (x && x->room) {
		madvise(x->room, GCK_OBJECT_MAX, MADV_HUGEPAGE);
		return x;
	}
	free(x);
	gck_fail(err, ENOMEM, "no memory for an object of %u bytes", GCK_OBJECT_MAX);
	return NULL;
}

void gck_parcel_free(struct gck_parcel *x)
{
	if (!x)
		return;
	free(x->room);
	free(x);
}

bool gck_parcel_fits(const struct gck_parcel *x, uint32_t size)
{
	return x->n < GCK_PARCEL_CHUNKS && x->used + size <= GCK_OBJECT_MAX;
}

void gck_parcel_add(struct gck_parcel *x, const void *data, const struct gck_chunk *c)
{
	struct gck_chunk *to = &x->chunks[x->n];

	memcpy(x->room + x->used, data, c->size);
	*to = *c;
	to->offset = x->used;
	to->stored = c->size;
	to->method = GCK_COMPRESS_NONE;
	x->used += c->size;
}

void gck_parcel_encode(struct gck_parcel *x, uint32_t i, struct gck_codec *codec)
{
	struct gck_chunk *c = &x->chunks[i];
	char *at = x->room + c->offset;
	const void *bytes;
	size_t stored;

	gck_codec_encode(codec, at, c->size, &bytes, &stored, &c->method);
	if (bytes != at)
		memcpy(at, bytes, stored);
	c->stored = (uint32_t)stored;
}

/* What an object is named after: a row for each chunk, numbers little-endian, hash canonical. */
static void add_row(XXH3_state_t *state, const struct gck_chunk *c)
{
	struct {
		XXH128_canonical_t hash;
		uint32_t stored, size, method;
	} row = { .stored = c->stored, .size = c->size, .method = c->method };

	_Static_assert(sizeof row == 28, "no padding");
	XXH128_canonicalFromHash(&row.hash, (XXH128_hash_t){ c->hash.lo, c->hash.hi });
	XXH3_128bits_update(state, &row, sizeof row);
}

int gck_parcel_pack(struct gck_parcel *x, const char *dir, struct gck_error *err)
{
	XXH3_state_t *state = XXH3_createState();
	char hash[GCK_HASH_TEXT];
	uint32_t at = 0;
	XXH128_hash_t h;

	if (!state)
		return gck_fail(err, ENOMEM, "no memory to name an object in %s", dir);
	XXH3_128bits_reset(state);
	for (uint32_t i = 0; i < x->n; i++) {
		struct gck_chunk *c = &x->chunks[i];

		if (c->offset != at)
			memmove(x->room + at, x->room + c->offset, c->stored);
		c->offset = at;
		at += c->stored;
		add_row(state, c);
	}
	x->used = at;
	h = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	gck_hash_text((struct gck_hash){ h.high64, h.low64 }, hash);
	snprintf(x->name, sizeof x->name, "%.*s/%s", GCK_NAME_MAX - GCK_HASH_TEXT - 1, dir, hash);
	return 0;
}
