/* SPDX-License-Identifier: Apache-2.0
 * Writing a rank's image: chunks are hashed and looked up; new ones go to the pipeline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/document/document.h"
#include "storage/document/json.h"
#include "storage/image/image.h"
#include "storage/image/pipeline.h"
#include "storage/image/previous_manifest.h"

struct gck_writer {
	struct gck_store *s;
	struct gck_chunk_index table;  /* a new chunk's place is set when its object is written */
	struct gck_previous old;
	struct gck_pipeline *pipeline; /* NULL: nothing more can be put */
	json_t *objects;         /* names */
	json_t *common;          /* numbers of the objects that other ranks may have too */
	json_t *common_new;      /* those of them that this writer put: bytes by name */
	uint32_t seq;
	char nonce[GCK_NONCE_MAX + 1];
	char dir[GCK_NAME_MAX];
	uint64_t put, stored;
	bool shared;             /* the next chunks are the same in other ranks */
	bool closed;             /* failed, or the manifest is written */
};

static int enter_common(struct gck_writer *w, uint32_t object, const struct gck_object_buffer *x)
{
	if (json_object_size(w->common_new) < GCK_SHARED_OBJECTS_RANK &&
	    json_object_set_new(w->common_new, strchr(x->name, '/') + 1, json_integer(x->used)) < 0)
		return -1;
	return json_array_append_new(w->common, json_integer(object));
}

/* An object was written: set where its chunks lie. */
static int enter_object(void *arg, const struct gck_object_buffer *x, struct gck_error *err)
{
	struct gck_writer *w = arg;
	uint32_t object = (uint32_t)json_array_size(w->objects);

	if (json_array_append_new(w->objects, json_string(x->name)) < 0)
		return gck_fail(err, ENOMEM, "no memory for the names of objects");
	if (x->shared && enter_common(w, object, x) < 0)
		return gck_fail(err, ENOMEM, "no memory for the numbers of objects");
	for (uint32_t i = 0; i < x->n; i++) {
		struct gck_chunk c = x->chunks[i];

		c.object = object;
		gck_chunks_set(&w->table.chunks, c.index, &c);
	}
	w->stored += x->used;
	return 0;
}

/* Is the previous manifest of this store, and encrypted with the same key or like this image not at
 * all? */
static bool may_build_on(struct gck_store *s, const json_t *previous)
{
	const char *of = previous ? gck_manifest_of(previous) : NULL;
	const struct gck_job_key *seal;

	return of && !strcmp(of, s->of) && gck_document_key(s, previous, &seal, NULL) == 0 &&
	       gck_job_key_same(seal, s->key);
}

static int writer_start(struct gck_writer *w, const struct gck_options *o, const json_t *previous,
			struct gck_error *err)
{
	const struct gck_pipeline_plan plan = { .dir = w->dir, .options = o, .key = w->s->key,
						.cpus = w->s->cpus, .memory = w->s->memory,
						.done = enter_object, .arg = w };

	w->objects = json_array();
	w->common = json_array();
	w->common_new = json_object();
	if (!w->objects || !w->common || !w->common_new)
		return gck_fail(err, ENOMEM, "no memory to write to %s", w->s->b->where);
	if (may_build_on(w->s, previous) && gck_previous_load(&w->old, previous, err) < 0)
		return -1;
	w->pipeline = gck_pipeline_open(w->s->b, &plan, err);
	return w->pipeline ? 0 : -1;
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
	if (!w->closed && w->pipeline)
		return 0;
	return gck_fail(err, EPIPE, "the image in %s/%s is finished or has failed", w->s->b->where,
			w->dir);
}

/* Give a new chunk its number, and its bytes to the pipeline. */
static int store_new(struct gck_writer *w, const void *data, struct gck_chunk *c,
		     struct gck_error *err)
{
	return gck_chunk_index_add(&w->table, c, err) < 0 ? -1 :
	       gck_pipeline_add(w->pipeline, data, c, w->shared, err);
}

/* As gck_writer_find, for an open writer; hash and size of *c are set. */
static int find_known(struct gck_writer *w, struct gck_chunk *c, struct gck_error *err)
{
	if (gck_chunk_index_find(&w->table, c->hash, c->size, c))
		return 1;
	if (!gck_previous_find(&w->old, w->s->b, w->objects, w->common, c->hash, c->size, c))
		return 0;
	return gck_chunk_index_add(&w->table, c, err) < 0 ? -1 : 1;
}

/* Account for a chunk and return it, or a failure (rc). */
static int give(struct gck_writer *w, int rc, const struct gck_chunk *c, struct gck_chunk *out)
{
	if (rc < 0) {
		w->closed = true;
		return -1;
	}
	w->put += c->size;
	*out = *c;
	return rc;
}

int gck_writer_find(struct gck_writer *w, struct gck_hash hash, uint32_t size,
		     struct gck_chunk *out, struct gck_error *err)
{
	struct gck_chunk c = { .hash = hash, .size = size };
	int known;

	if (check_open(w, err) < 0)
		return -1;
	known = find_known(w, &c, err);
	return known ? give(w, known, &c, out) : 0;
}

int gck_writer_reuse(struct gck_writer *w, uint32_t number, uint32_t size, struct gck_chunk *out,
		     struct gck_error *err)
{
	const struct gck_chunks *old = &w->old.table.chunks;
	struct gck_chunk c;

	if (number >= old->rows.n)
		return 0;
	c = gck_chunks_at(old, number);
	return c.size == size ? gck_writer_find(w, c.hash, size, out, err) : 0;
}

int gck_writer_put(struct gck_writer *w, const void *data, size_t size, struct gck_chunk *out,
		   struct gck_error *err)
{
	struct gck_chunk c;
	int rc;

	if (check_open(w, err) < 0)
		return -1;
	if (size == 0 || size > GCK_CHUNK_MAX)
		return gck_fail(err, EINVAL, "a chunk of %zu bytes: 1 to %u are possible", size,
				GCK_CHUNK_MAX);
	c = (struct gck_chunk){ .hash = gck_hash_bytes(data, size), .size = (uint32_t)size };
	rc = find_known(w, &c, err);
	if (rc == 0)
		rc = store_new(w, data, &c, err);
	return give(w, rc, &c, out) < 0 ? -1 : 0;
}

int gck_writer_shared(struct gck_writer *w, bool shared, struct gck_error *err)
{
	if (check_open(w, err) < 0)
		return -1;
	if (!w->shared || shared || gck_pipeline_cut(w->pipeline, true, err) == 0) {
		w->shared = shared;
		return 0;
	}
	w->closed = true;
	return -1;
}

/* The plain part, for removal, which has no key: the objects, where the last chunk in each ends,
 * and the bytes of all chunks. */
static json_t *readable_part(struct gck_writer *w)
{
	size_t n = json_array_size(w->objects);
	uint64_t *ends = calloc(n + 1, sizeof *ends), bytes;
	json_t *reach = json_array();

	if (!ends || !reach) {
		free(ends);
		json_decref(reach);
		return NULL;
	}
	bytes = gck_chunks_reach(&w->table.chunks, ends);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(reach, json_integer((json_int_t)ends[i]));
	free(ends);
	return json_pack("{s:{s:s, s:O, s:o, s:I}}", "store", "of", w->s->of, "objects", w->objects,
			 "reach", reach, "bytes", (json_int_t)bytes);
}

/* The manifest with the member "store" added. The table of chunks is freed first: it is large. */
static json_t *add_store(struct gck_writer *w, const json_t *manifest)
{
	json_t *chunks = gck_hex_table_json(&w->table.chunks.rows), *store, *all;

	gck_chunk_index_clear(&w->table);
	store = json_pack("{s:s, s:O, s:O, s:o}", "of", w->s->of, "objects", w->objects, "shared",
			  w->common, "chunks", chunks);
	all = json_copy((json_t *)manifest);
	if (store && all && json_object_set(all, "store", store) == 0) {
		json_decref(store);
		return all;
	}
	json_decref(store);
	json_decref(all);
	return NULL;
}

/* The manifest as it is written, encrypted or not. */
static json_t *whole_manifest(struct gck_writer *w, const char *name, const json_t *manifest,
			      struct gck_error *err)
{
	json_t *plain = w->s->key ? readable_part(w) : NULL;
	json_t *all = add_store(w, manifest), *made = NULL;

	if (!all || (w->s->key && !plain))
		gck_fail(err, ENOMEM, "a manifest for %s/%s cannot be made", w->s->b->where,
			 w->dir);
	else
		made = plain ? gck_document_encrypt(w->s, name, plain, all,
						      err) : json_incref(all);
	json_decref(plain);
	json_decref(all);
	return made;
}

/* free() it. */
static char *manifest_text(struct gck_writer *w, const char *name, const json_t *manifest,
			   struct gck_error *err)
{
	json_t *all = whole_manifest(w, name, manifest, err);
	char *text = all ? gck_json_text(all) : NULL;

	if (all && !text)
		gck_fail(err, ENOMEM, "a manifest for %s/%s cannot be made", w->s->b->where,
			 w->dir);
	json_decref(all);
	return text;
}

int gck_writer_finish(struct gck_writer *w, struct gck_error *err)
{
	if (check_open(w, err) < 0)
		return -1;
	if (gck_pipeline_finish(w->pipeline, err) < 0) {
		w->closed = true;
		return -1;
	}
	gck_pipeline_close(w->pipeline); /* the manifest needs the memory */
	w->pipeline = NULL;
	gck_previous_clear(&w->old);
	gck_chunk_index_close(&w->table);
	return 0;
}

int gck_writer_manifest(struct gck_writer *w, uint32_t rank, const json_t *manifest,
			char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	struct gck_backend *b = w->s->b;
	char name[GCK_NAME_MAX];
	char *text;
	int rc;

	if ((w->pipeline || w->closed) && gck_writer_finish(w, err) < 0)
		return -1;
	w->closed = true;
	if (b->ops->flush(b, err) < 0)
		return -1;
	gck_name_manifest(name, w->seq, w->nonce, rank);
	text = manifest_text(w, name, manifest, err);
	if (!text)
		return -1;
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

json_t *gck_writer_shared_objects(const struct gck_writer *w)
{
	return w->common_new;
}

void gck_writer_close(struct gck_writer *w)
{
	if (!w)
		return;
	gck_pipeline_close(w->pipeline);
	gck_previous_clear(&w->old);
	gck_chunk_index_clear(&w->table);
	json_decref(w->objects);
	json_decref(w->common);
	json_decref(w->common_new);
	free(w);
}

/* ---- objects that several ranks have stored ------------------------------------------------- */

static bool is_object(const char *name, const json_t *size)
{
	struct gck_hash hash;

	return gck_hash_parse(name, &hash,
			      NULL) == 0 && json_is_integer(size) && json_integer_value(size) >= 0;
}

uint64_t gck_shared_objects_count(json_t *all, size_t most, const json_t *common, uint64_t stored)
{
	const char *name;
	json_t *size;

	json_object_foreach((json_t *)common, name, size) {
		uint64_t bytes = (uint64_t)json_integer_value(size);

		if (!is_object(name, size))
			continue;
		if (json_object_get(all, name))
			stored -= bytes < stored ? bytes : stored;
		else if (json_object_size(all) < most)
			json_object_set_new(all, name, json_integer((json_int_t)bytes));
	}
	return stored;
}
