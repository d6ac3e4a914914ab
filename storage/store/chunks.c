/* SPDX-License-Identifier: Apache-2.0
 * The member "store" of a manifest: object names, chunks as rows of hex digits, and their index. */
#include <stdlib.h>
#include <string.h>

#include "common/base/options.h"
#include "storage/document/document.h"
#include "storage/store/chunks.h"

#define ROW 55

/* The columns of a row; a hash is two numbers of 16 digits. */
static const struct {
	uint8_t at, digits;
} column[] = { { 0, 16 }, { 16, 16 }, { 32, 6 }, { 38, 6 }, { 44, 5 }, { 49, 5 }, { 54, 1 } };

#define COLUMNS (sizeof column / sizeof column[0])

struct gck_chunk gck_chunks_at(const struct gck_chunks *c, size_t number)
{
	uint64_t v[COLUMNS];

	for (size_t i = 0; i < COLUMNS; i++)
		v[i] = gck_hex_table_get(&c->rows, number, column[i].at, column[i].digits);
	return (struct gck_chunk){ .hash = { v[0], v[1] },
				   .index = (uint32_t)number,
				   .object = (uint32_t)v[2],
				   .offset = (uint32_t)v[3],
				   .stored = (uint32_t)v[4],
				   .size = (uint32_t)v[5],
				   .method = (uint32_t)v[6] };
}

/* The part of a chunk's hash that the index looks it up by. */
static uint64_t chunk_key(const struct gck_chunks *c, size_t number)
{
	return gck_hex_table_get(&c->rows, number, column[1].at, column[1].digits);
}

void gck_chunks_set(struct gck_chunks *c, size_t number, const struct gck_chunk *x)
{
	const uint64_t v[COLUMNS] = { x->hash.hi, x->hash.lo, x->object, x->offset,
				      x->stored,  x->size,    x->method };

	for (size_t i = 0; i < COLUMNS; i++)
		gck_hex_table_set(&c->rows, number, column[i].at, column[i].digits, v[i]);
}

static int chunks_add(struct gck_chunks *c, const struct gck_chunk *x, struct gck_error *err)
{
	c->rows.width = ROW;
	if (gck_hex_table_add(&c->rows, err) < 0)
		return -1;
	gck_chunks_set(c, c->rows.n - 1, x);
	return 0;
}

void gck_chunks_clear(struct gck_chunks *c)
{
	gck_hex_table_clear(&c->rows);
}

/* extra: the bytes that encryption adds to each chunk. */
static bool fits(const struct gck_chunk *c, size_t nobjects, uint32_t extra)
{
	if (c->size == 0 || c->size > GCK_CHUNK_MAX || c->stored <= extra ||
	    c->object >= nobjects || (uint64_t)c->offset + c->stored > GCK_OBJECT_STORED_MAX)
		return false;
	if (c->method == GCK_COMPRESS_NONE)
		return c->stored - extra == c->size;
	return (c->method == GCK_COMPRESS_LZ4 || c->method == GCK_COMPRESS_ZSTD) &&
	       c->stored - extra < c->size;
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

static const json_t *chunks_of(const json_t *manifest)
{
	return json_object_get(json_object_get(manifest, "store"), "chunks");
}

size_t gck_manifest_chunks(const json_t *manifest)
{
	return gck_hex_table_count(ROW, chunks_of(manifest));
}

int gck_chunks_load(const json_t *manifest, struct gck_chunks *c, struct gck_error *err)
{
	const json_t *objects = gck_manifest_objects(manifest, err);
	uint32_t extra = gck_document_is_encrypted(manifest) ? GCK_ENCRYPT_EXTRA : 0;
	struct gck_chunks found;

	if (!objects)
		return -1;
	if (gck_hex_table_load(&found.rows, ROW, chunks_of(manifest), err) < 0)
		return gck_fail_in(err, "the manifest's table of chunks");
	for (size_t i = 0; i < found.rows.n; i++) {
		struct gck_chunk x = gck_chunks_at(&found, i);

		if (i < UINT32_MAX / 2 && fits(&x, json_array_size(objects), extra))
			continue;
		gck_chunks_clear(&found);
		return gck_fail(err, EBADMSG, "the manifest's chunk %zu is not valid", i);
	}
	*c = found;
	return 0;
}

uint64_t gck_chunks_reach(const struct gck_chunks *c, uint64_t *reach)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < c->rows.n; i++) {
		struct gck_chunk x = gck_chunks_at(c, i);
		uint64_t end = (uint64_t)x.offset + x.stored;

		if (reach[x.object] < end)
			reach[x.object] = end;
		bytes += x.stored;
	}
	return bytes;
}

/* ---- the index ------------------------------------------------------------------------------ */

#define SLOTS_MIN 256u

void gck_chunk_index_close(struct gck_chunk_index *t)
{
	free(t->slots);
	t->slots = NULL;
	t->nslots = 0;
}

void gck_chunk_index_clear(struct gck_chunk_index *t)
{
	gck_chunk_index_close(t);
	gck_chunks_clear(&t->chunks);
}

static void enter(struct gck_chunk_index *t, uint64_t key, size_t number)
{
	size_t i = key & (t->nslots - 1);

	while (t->slots[i])
		i = (i + 1) & (t->nslots - 1);
	t->slots[i] = (uint32_t)number + 1;
}

/* Allocate slots for n chunks, at most three quarters full. The old ones are freed first, so that
 * both never exist together. */
static int grow_slots(struct gck_chunk_index *t, size_t n, struct gck_error *err)
{
	size_t want = t->nslots ? t->nslots : SLOTS_MIN;

	while (want / 4 * 3 < n)
		want *= 2;
	if (want == t->nslots)
		return 0;
	gck_chunk_index_close(t);
	t->slots = calloc(want, sizeof *t->slots);
	if (!t->slots)
		return gck_fail(err, ENOMEM, "no memory for a table of %zu chunks", n);
	t->nslots = want;
	for (size_t i = 0; i < t->chunks.rows.n; i++)
		enter(t, chunk_key(&t->chunks, i), i);
	return 0;
}

int gck_chunk_index_adopt(struct gck_chunk_index *t, struct gck_chunks *chunks,
			  struct gck_error *err)
{
	*t = (struct gck_chunk_index){ .chunks = *chunks };
	return grow_slots(t, chunks->rows.n, err);
}

bool gck_chunk_index_find(const struct gck_chunk_index *t, struct gck_hash hash, uint32_t size,
		    struct gck_chunk *found)
{
	size_t i = hash.lo & (t->nslots - 1);

	if (!t->nslots)
		return false;
	for (; t->slots[i]; i = (i + 1) & (t->nslots - 1)) {
		struct gck_chunk c;

		if (chunk_key(&t->chunks, t->slots[i] - 1) != hash.lo)
			continue;
		c = gck_chunks_at(&t->chunks, t->slots[i] - 1);
		if (gck_hash_same(c.hash, hash) && c.size == size) {
			*found = c;
			return true;
		}
	}
	return false;
}

int gck_chunk_index_add(struct gck_chunk_index *t, struct gck_chunk *c, struct gck_error *err)
{
	size_t number = t->chunks.rows.n;

	if (grow_slots(t, number + 1, err) < 0 || chunks_add(&t->chunks, c, err) < 0)
		return -1;
	c->index = (uint32_t)number;
	enter(t, c->hash.lo, number);
	return 0;
}
