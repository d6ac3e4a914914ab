/* SPDX-License-Identifier: Apache-2.0
 * An object that is being made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xxhash.h>

#include "storage/image/object_buffer.h"

#define HUGE_PAGE (2u * 1024 * 1024)

struct gck_object_buffer *gck_object_buffer_new(struct gck_error *err)
{
	struct gck_object_buffer *x = calloc(1, sizeof *x);
	void *bytes = NULL;

	if (x && posix_memalign(&bytes, HUGE_PAGE, GCK_OBJECT_STORED_MAX) == 0) {
		x->bytes = bytes;
		madvise(x->bytes, GCK_OBJECT_MAX, MADV_HUGEPAGE);
		return x;
	}
	free(x);
	gck_fail(err, ENOMEM, "no memory for an object of %u bytes", GCK_OBJECT_MAX);
	return NULL;
}

void gck_object_buffer_free(struct gck_object_buffer *x)
{
	if (!x)
		return;
	free(x->bytes);
	free(x);
}

/* Bytes that encryption adds do not count, so that it does not change the number of objects; but a
 * chunk's offset in the manifest has 24 bits. */
bool gck_object_buffer_fits(const struct gck_object_buffer *x, uint32_t size)
{
	return x->n < GCK_OBJECT_CHUNKS && x->used < GCK_OBJECT_MAX &&
	       x->used - x->n * x->extra + size <= GCK_OBJECT_MAX;
}

void gck_object_buffer_add(struct gck_object_buffer *x, const void *data, const struct gck_chunk *c)
{
	struct gck_chunk *to = &x->chunks[x->n];

	memcpy(x->bytes + x->used + (x->extra ? GCK_CODEC_BEFORE : 0), data, c->size);
	*to = *c;
	to->offset = x->used;
	to->stored = c->size;
	to->method = GCK_COMPRESS_NONE;
	x->used += c->size + x->extra;
}

int gck_object_buffer_encode(struct gck_object_buffer *x, uint32_t i, struct gck_codec *codec,
		      struct gck_error *err)
{
	struct gck_chunk *c = &x->chunks[i];

	return gck_codec_encode(codec, c, x->bytes + c->offset, err);
}

/* An object's name is the hash of these rows, one for each chunk: numbers little-endian, hash
 * canonical. */
struct row {
	XXH128_canonical_t hash;
	uint32_t stored, size, method;
};

_Static_assert(sizeof(struct row) == 28, "no padding");

static int name_rows(const struct row *rows, size_t n, const struct gck_job_key *seal,
		     struct gck_hash *name, struct gck_error *err)
{
	if (seal)
		return gck_keyed_name(seal, rows, n * sizeof *rows, name, err);
	*name = gck_hash_bytes(rows, n * sizeof *rows);
	return 0;
}

int gck_object_buffer_pack(struct gck_object_buffer *x, const char *dir,
			   const struct gck_job_key *seal,
		    struct gck_error *err)
{
	struct row *rows = malloc((x->n + 1) * sizeof *rows);
	char hash[GCK_HASH_TEXT];
	struct gck_hash name;
	uint32_t at = 0;
	int rc;

	if (!rows)
		return gck_fail(err, ENOMEM, "no memory to name an object in %s", dir);
	for (uint32_t i = 0; i < x->n; i++) {
		struct gck_chunk *c = &x->chunks[i];

		if (c->offset != at)
			memmove(x->bytes + at, x->bytes + c->offset, c->stored);
		c->offset = at;
		at += c->stored;
		rows[i] = (struct row){ .stored = c->stored, .size = c->size, .method = c->method };
		XXH128_canonicalFromHash(&rows[i].hash, (XXH128_hash_t){ c->hash.lo, c->hash.hi });
	}
	x->used = at;
	rc = name_rows(rows, x->n, seal, &name, err);
	free(rows);
	if (rc < 0)
		return -1;
	gck_hash_text(name, hash);
	snprintf(x->name, sizeof x->name, "%.*s/%s", GCK_NAME_MAX - GCK_HASH_TEXT - 1, dir, hash);
	return 0;
}
