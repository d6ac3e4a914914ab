/* SPDX-License-Identifier: Apache-2.0
 * Writing a rank's image: chunks are hashed here, looked up, and new ones given to the pipeline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/internal.h"
#include "storage/pipeline.h"
#include "storage/previous.h"
#include "storage/table.h"

struct gck_writer {
	struct gck_store *s;
	struct gck_table table;  /* where a new chunk lies is entered when its object is put */
	struct gck_previous old;
	struct gck_pipeline *pipeline;
	json_t *objects;         /* names */
	uint32_t seq;
	char nonce[GCK_NONCE_MAX + 1];
	char dir[GCK_NAME_MAX];
	uint64_t put, stored;
	bool shared;             /* what is put now is the same in other ranks */
	bool closed;             /* failed or finished: nothing more may be put */
};

/* An object is in the store: enter where its chunks lie. */
static int enter_object(void *arg, const struct gck_parcel *x, struct gck_error *err)
{
	struct gck_writer *w = arg;
	uint32_t object = (uint32_t)json_array_size(w->objects);

	if (json_array_append_new(w->objects, json_string(x->name)) < 0)
		return gck_fail(err, ENOMEM, "no memory for the names of objects");
	for (uint32_t i = 0; i < x->n; i++) {
		struct gck_chunk *c = &w->table.v[x->chunks[i].index];

		*c = x->chunks[i];
		c->object = object;
	}
	w->stored += x->used;
	return 0;
}

static int writer_start(struct gck_writer *w, const struct gck_options *o, const json_t *previous,
			struct gck_error *err)
{
	const char *of = previous ? gck_manifest_of(previous) : NULL;
	const struct gck_pipeline_plan plan = { .dir = w->dir, .options = o, .cpus = w->s->cpus,
						.memory = w->s->memory, .done = enter_object,
						.arg = w };

	w->objects = json_array();
	if (!w->objects)
		return gck_fail(err, ENOMEM, "no memory to write to %s", w->s->b->where);
	if (of && !strcmp(of, w->s->of) && gck_previous_load(&w->old, previous, err) < 0)
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
	if (!w->closed)
		return 0;
	return gck_fail(err, EPIPE, "the image in %s/%s is finished or has failed", w->s->b->where,
			w->dir);
}

/* Give a chunk that nobody has its number, and the pipeline its bytes. */
static const struct gck_chunk *store_new(struct gck_writer *w, const void *data,
					 const struct gck_chunk *made, struct gck_error *err)
{
	const struct gck_chunk *c = gck_table_add(&w->table, made, err);

	return c && gck_pipeline_add(w->pipeline, data, c, w->shared, err) == 0 ? c : NULL;
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
	if (!c && gck_previous_find(&w->old, w->s->b, w->objects, made.hash, made.size, &made))
		c = gck_table_add(&w->table, &made, err);
	else if (!c)
		c = store_new(w, data, &made, err);
	if (!c) {
		w->closed = true;
		return -1;
	}
	w->put += size;
	*out = *c;
	return 0;
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

	if (check_open(w, err) < 0)
		return -1;
	w->closed = true;
	if (gck_pipeline_finish(w->pipeline, err) < 0 || b->ops->flush(b, err) < 0)
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
	gck_pipeline_close(w->pipeline);
	gck_previous_clear(&w->old);
	gck_table_clear(&w->table);
	json_decref(w->objects);
	free(w);
}
