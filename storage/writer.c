/* SPDX-License-Identifier: Apache-2.0
 * Writing a rank's image: new chunks go into objects straight from the caller's memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "storage/internal.h"
#include "storage/table.h"

/* The rank's manifest in the commit before. */
struct previous {
	struct gck_table table;
	size_t nobjects;
	struct previous_object {
		char *name;
		uint32_t need;   /* bytes that its chunks reach to */
		int64_t mapped;  /* number in our table; UNKNOWN, UNUSABLE */
	} *objects;
};

#define UNKNOWN (-1)
#define UNUSABLE (-2)

struct gck_writer {
	struct gck_store *s;
	struct gck_codec *codec;
	struct gck_table table;
	struct previous old;
	json_t *objects;            /* names; null for the one being written */
	struct gck_stream *stream;  /* the object being written */
	XXH3_state_t *name;         /* of its table */
	uint32_t stream_object, stream_size;
	uint32_t seq;
	char nonce[GCK_NONCE_MAX + 1];
	char dir[GCK_NAME_MAX];
	uint64_t put, stored;
	bool closed;                /* failed or finished: nothing more may be put */
};

/* ---- the commit before --------------------------------------------------------------------- */

static int previous_objects(struct previous *p, const json_t *names, struct gck_error *err)
{
	size_t n = json_array_size(names);

	p->objects = calloc(n + 1, sizeof *p->objects);
	if (!p->objects)
		return gck_fail(err, ENOMEM, "no memory for the manifest of the commit before");
	for (p->nobjects = 0; p->nobjects < n; p->nobjects++) {
		struct previous_object *o = &p->objects[p->nobjects];

		o->name = strdup(json_string_value(json_array_get(names, p->nobjects)));
		if (!o->name)
			return gck_fail(err, ENOMEM, "no memory for the names of objects");
		o->mapped = UNKNOWN;
	}
	return 0;
}

static int previous_load(struct previous *p, const json_t *manifest, struct gck_error *err)
{
	struct gck_chunk *v;
	size_t n;

	if (gck_chunks_load(manifest, &v, &n, err) < 0)
		return -1;
	if (gck_table_adopt(&p->table, v, n, err) < 0) {
		free(v);
		return -1;
	}
	if (previous_objects(p, gck_manifest_objects(manifest, err), err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (p->objects[v[i].object].need < v[i].offset + v[i].stored)
			p->objects[v[i].object].need = v[i].offset + v[i].stored;
	return 0;
}

static void previous_clear(struct previous *p)
{
	for (size_t i = 0; i < p->nobjects; i++)
		free(p->objects[i].name);
	free(p->objects);
	gck_table_clear(&p->table);
}

/* Our number for an object of the commit before; an object that is gone or cut is not used. */
static int64_t map_object(struct gck_writer *w, struct previous_object *o)
{
	struct gck_backend *b = w->s->b;
	uint64_t size;

	if (o->mapped != UNKNOWN)
		return o->mapped;
	o->mapped = UNUSABLE;
	if (b->ops->size(b, o->name, &size, NULL) == 0 && size >= o->need &&
	    json_array_append_new(w->objects, json_string(o->name)) == 0)
		o->mapped = (int64_t)json_array_size(w->objects) - 1;
	return o->mapped;
}

/* The chunk as the commit before has it, entered into our table; *found NULL if it has not. */
static int find_previous(struct gck_writer *w, struct gck_hash hash, uint32_t size,
			 const struct gck_chunk **found, struct gck_error *err)
{
	const struct gck_chunk *old = gck_table_find(&w->old.table, hash, size);
	struct gck_chunk c;
	int64_t object;

	*found = NULL;
	if (!old)
		return 0;
	object = map_object(w, &w->old.objects[old->object]);
	if (object < 0)
		return 0;
	c = *old;
	c.object = (uint32_t)object;
	*found = gck_table_add(&w->table, &c, err);
	return *found ? 0 : -1;
}

/* ---- objects ------------------------------------------------------------------------------- */

static int object_open(struct gck_writer *w, struct gck_error *err)
{
	w->stream = w->s->b->ops->stream_open(w->s->b, w->dir, err);
	if (!w->stream)
		return -1;
	w->stream_object = (uint32_t)json_array_size(w->objects);
	w->stream_size = 0;
	XXH3_128bits_reset(w->name);
	if (json_array_append_new(w->objects, json_null()) < 0)
		return gck_fail(err, ENOMEM, "no memory for the names of objects");
	return 0;
}

/* What an object is named after: a row for each chunk, numbers little-endian, hash canonical. */
static void object_name_add(struct gck_writer *w, const struct gck_chunk *c)
{
	struct {
		XXH128_canonical_t hash;
		uint32_t stored, size, method;
	} row = { .stored = c->stored, .size = c->size, .method = c->method };

	_Static_assert(sizeof row == 28, "no padding");
	XXH128_canonicalFromHash(&row.hash, (XXH128_hash_t){ c->hash.lo, c->hash.hi });
	XXH3_128bits_update(w->name, &row, sizeof row);
}

static int object_finish(struct gck_writer *w, struct gck_error *err)
{
	XXH128_hash_t h = XXH3_128bits_digest(w->name);
	struct gck_stream *st = w->stream;
	char name[GCK_NAME_MAX], hash[GCK_HASH_TEXT];

	gck_hash_text((struct gck_hash){ h.high64, h.low64 }, hash);
	snprintf(name, sizeof name, "%.*s/%s", GCK_NAME_MAX - GCK_HASH_TEXT - 1, w->dir, hash);
	w->stream = NULL;
	if (w->s->b->ops->stream_finish(st, name, err) < 0)
		return -1;
	if (json_array_set_new(w->objects, w->stream_object, json_string(name)) < 0)
		return gck_fail(err, ENOMEM, "no memory for the names of objects");
	return 0;
}

static const struct gck_chunk *store_new(struct gck_writer *w, const void *data,
					 struct gck_chunk *c, struct gck_error *err)
{
	const void *bytes;
	size_t stored;

	gck_codec_encode(w->codec, data, c->size, &bytes, &stored, &c->method);
	if (w->stream && w->stream_size + stored > GCK_OBJECT_MAX && object_finish(w, err) < 0)
		return NULL;
	if (!w->stream && object_open(w, err) < 0)
		return NULL;
	c->object = w->stream_object;
	c->offset = w->stream_size;
	c->stored = (uint32_t)stored;
	if (w->s->b->ops->stream_write(w->stream, bytes, stored, err) < 0)
		return NULL;
	w->stream_size += c->stored;
	w->stored += stored;
	object_name_add(w, c);
	return gck_table_add(&w->table, c, err);
}

/* ---- the writer ---------------------------------------------------------------------------- */

static int writer_start(struct gck_writer *w, const struct gck_options *o, const json_t *previous,
			struct gck_error *err)
{
	const char *of = previous ? gck_manifest_of(previous) : NULL;

	w->codec = gck_codec_new(o->compress, o->compress_level, err);
	if (!w->codec)
		return -1;
	w->name = XXH3_createState();
	w->objects = json_array();
	if (!w->name || !w->objects)
		return gck_fail(err, ENOMEM, "no memory to write to %s", w->s->b->where);
	return of && !strcmp(of, w->s->of) ? previous_load(&w->old, previous, err) : 0;
}

struct gck_writer *gck_writer_open(struct gck_store *s, uint32_t seq, const char *nonce,
				   const struct gck_options *o, const json_t *previous,
				   struct gck_error *err)
{
	struct gck_writer *w;

	if (gck_nonce_check(nonce, err) < 0)
		return NULL;
	w = calloc(1, sizeof *w);
	if (!w) {
		gck_fail(err, ENOMEM, "no memory to write to %s", s->b->where);
		return NULL;
	}
	w->s = s;
	w->seq = seq;
	memcpy(w->nonce, nonce, strlen(nonce));
	gck_name_dir(w->dir, seq, nonce);
	if (writer_start(w, o, previous, err) == 0)
		return w;
	gck_writer_close(w);
	return NULL;
}

static int check_open(const struct gck_writer *w, struct gck_error *err)
{
	if (!w->closed)
		return 0;
	return gck_fail(err, EPIPE, "the image in %s/%s is finished or has failed", w->s->b->where,
			w->dir);
}

int gck_writer_put(struct gck_writer *w, const void *data, size_t size, struct gck_chunk *out,
		   struct gck_error *err)
{
	const struct gck_chunk *c;
	struct gck_chunk made;

	if (check_open(w, err) < 0)
		return -1;
	if (size == 0 || size > GCK_CHUNK_MAX)
		return gck_fail(err, EINVAL, "a chunk of %zu bytes: 1 to %u are possible", size,
				GCK_CHUNK_MAX);
	made = (struct gck_chunk){ .hash = gck_hash_bytes(data, size), .size = (uint32_t)size };
	c = gck_table_find(&w->table, made.hash, made.size);
	if (!c && find_previous(w, made.hash, made.size, &c, err) == 0 && !c)
		c = store_new(w, data, &made, err);
	if (!c) {
		w->closed = true;
		return -1;
	}
	w->put += size;
	*out = *c;
	return 0;
}

int gck_writer_cut(struct gck_writer *w, struct gck_error *err)
{
	if (check_open(w, err) < 0)
		return -1;
	if (!w->stream || object_finish(w, err) == 0)
		return 0;
	w->closed = true;
	return -1;
}

/* The manifest's text with the member "store" added; free() it. */
static char *manifest_text(struct gck_writer *w, const json_t *manifest, struct gck_error *err)
{
	json_t *chunks = gck_chunks_text(w->table.v, w->table.n, err);
	json_t *all = NULL, *store = NULL;
	char *text = NULL;

	if (!chunks)
		return NULL;
	store = json_pack("{s:s, s:O, s:o}", "of", w->s->of, "objects", w->objects, "chunks",
			  chunks);
	all = json_copy((json_t *)manifest);
	if (store && all && json_object_set(all, "store", store) == 0)
		text = json_dumps(all, JSON_COMPACT);
	if (!text)
		gck_fail(err, ENOMEM, "a manifest for %s/%s cannot be made", w->s->b->where,
			 w->dir);
	json_decref(store);
	json_decref(all);
	return text;
}

int gck_writer_manifest(struct gck_writer *w, uint32_t rank, const json_t *manifest,
			char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	struct gck_backend *b = w->s->b;
	char name[GCK_NAME_MAX];
	char *text;
	int rc;

	if (gck_writer_cut(w, err) < 0)
		return -1;
	w->closed = true;
	if (b->ops->flush(b, err) < 0)
		return -1;
	text = manifest_text(w, manifest, err);
	if (!text)
		return -1;
	gck_name_manifest(name, w->seq, w->nonce, rank);
	rc = b->ops->put(b, name, w->dir, text, strlen(text), err);
	if (rc == 0)
		gck_hash_text(gck_hash_bytes(text, strlen(text)), hash);
	free(text);
	return rc;
}

void gck_writer_totals(const struct gck_writer *w, uint64_t *put, uint64_t *stored)
{
	*put = w->put;
	*stored = w->stored;
}

void gck_writer_close(struct gck_writer *w)
{
	if (!w)
		return;
	if (w->stream)
		w->s->b->ops->stream_discard(w->stream);
	previous_clear(&w->old);
	gck_table_clear(&w->table);
	json_decref(w->objects);
	XXH3_freeState(w->name);
	gck_codec_free(w->codec);
	free(w);
}
