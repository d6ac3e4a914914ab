/* SPDX-License-Identifier: Apache-2.0
 * The member "store" of a manifest: object names, and chunks as rows of hex digits. */
#include <stdlib.h>

#include "common/hex.h"
#include "storage/sealed.h"

#define ROW 55

/* The columns of a row; a hash is two numbers of 16 digits. */
static const struct {
	uint8_t at, digits;
} column[] = { { 0, 16 }, { 16, 16 }, { 32, 6 }, { 38, 6 }, { 44, 5 }, { 49, 5 }, { 54, 1 } };

#define COLUMNS (sizeof column / sizeof column[0])

static void put_row(char *row, const struct gck_chunk *c)
{
	const uint64_t value[COLUMNS] = { c->hash.hi, c->hash.lo, c->object, c->offset,
					  c->stored, c->size,	  c->method };

	for (size_t i = 0; i < COLUMNS; i++) {
		uint64_t v = value[i];

		for (int d = column[i].digits - 1; d >= 0; d--, v >>= 4)
			row[column[i].at + d] = "0123456789abcdef"[v & 15];
	}
}

json_t *gck_chunks_text(const struct gck_chunk *v, size_t n, struct gck_error *err)
{
	char *text = malloc(n * ROW + 1);
	json_t *j;

	if (text) {
		for (size_t i = 0; i < n; i++)
			put_row(text + i * ROW, &v[i]);
		j = json_stringn_nocheck(text, n * ROW);
		free(text);
		if (j)
			return j;
	}
	gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", n);
	return NULL;
}

static bool get_row(const char *row, uint64_t value[COLUMNS])
{
	for (size_t i = 0; i < COLUMNS; i++)
		if (!gck_unhex_number(row + column[i].at, column[i].digits, &value[i]))
			return false;
	return true;
}

/* extra: what encryption adds to each. */
static bool fits(const struct gck_chunk *c, size_t nobjects, uint32_t extra)
{
	if (c->size == 0 || c->size > GCK_CHUNK_MAX || c->stored <= extra || c->object >= nobjects ||
	    (uint64_t)c->offset + c->stored > GCK_OBJECT_STORED_MAX)
		return false;
	if (c->method == GCK_COMPRESS_NONE)
		return c->stored - extra == c->size;
	return (c->method == GCK_COMPRESS_LZ4 || c->method == GCK_COMPRESS_ZSTD) &&
	       c->stored - extra < c->size;
}

static int load_row(const char *row, uint32_t index, size_t nobjects, uint32_t extra,
		    struct gck_chunk *c)
{
	uint64_t v[COLUMNS];

	if (!get_row(row, v))
		return -1;
	*c = (struct gck_chunk){ .hash = { v[0], v[1] },
				 .index = index,
				 .object = (uint32_t)v[2],
				 .offset = (uint32_t)v[3],
				 .stored = (uint32_t)v[4],
				 .size = (uint32_t)v[5],
				 .method = (uint32_t)v[6] };
	return fits(c, nobjects, extra) ? 0 : -1;
}

const json_t *gck_manifest_objects(const json_t *manifest, struct gck_error *err)
{
	const json_t *objects = json_object_get(json_object_get(manifest, "store"), "objects");
	size_t i;
	json_t *name;

	if (!json_is_array(objects)) {
		gck_fail(err, EBADMSG, "the manifest has no \"store\" with \"objects\"");
		return NULL;
	}
	json_array_foreach(objects, i, name) {
		if (json_is_string(name) && gck_name_is_object(json_string_value(name)))
			continue;
		gck_fail(err, EBADMSG, "the manifest's object %zu has no valid name", i);
		return NULL;
	}
	return objects;
}

const char *gck_manifest_of(const json_t *manifest)
{
	return json_string_value(json_object_get(json_object_get(manifest, "store"), "of"));
}

bool gck_manifest_shares(const json_t *manifest, size_t object)
{
	const json_t *shared = json_object_get(json_object_get(manifest, "store"), "shared");
	json_t *one;
	size_t i;

	json_array_foreach(shared, i, one)
		if (json_integer_value(one) == (json_int_t)object)
			return true;
	return false;
}

int gck_chunks_load(const json_t *manifest, struct gck_chunk **v, size_t *n,
		    struct gck_error *err)
{
	const json_t *objects = gck_manifest_objects(manifest, err);
	const json_t *text = json_object_get(json_object_get(manifest, "store"), "chunks");
	size_t length = json_string_length(text);
	uint32_t extra = gck_sealed_is(manifest) ? GCK_SEAL_EXTRA : 0;
	struct gck_chunk *table;

	if (!objects)
		return -1;
	if (!json_is_string(text) || length % ROW || length / ROW > UINT32_MAX / 2)
		return gck_fail(err, EBADMSG, "the manifest has no valid table of chunks");
	table = calloc(length / ROW + 1, sizeof *table);
	if (!table)
		return gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", length / ROW);
	for (uint32_t i = 0; i < length / ROW; i++) {
		if (!load_row(json_string_value(text) + (size_t)i * ROW, i,
			      json_array_size(objects), extra, &table[i]))
			continue;
		free(table);
		return gck_fail(err, EBADMSG, "the manifest's chunk %u is not valid", i);
	}
	*v = table;
	*n = length / ROW;
	return 0;
}

uint64_t gck_chunks_reach(const struct gck_chunk *v, size_t n, uint64_t *reach)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t end = (uint64_t)v[i].offset + v[i].stored;

		if (reach[v[i].object] < end)
			reach[v[i].object] = end;
		bytes += v[i].stored;
	}
	return bytes;
}
