/* SPDX-License-Identifier: Apache-2.0
 * Reading and verifying chunks of a manifest: ahead by threads, or one by one. */
#include <stdlib.h>
#include <string.h>

#include "storage/document/document.h"
#include "storage/image/codec.h"
#include "storage/image/image.h"
#include "storage/store/chunks.h"
#include "storage/store/node_cache.h"

struct gck_reader {
	struct gck_store *s;
	const struct gck_job_key *seal; /* NULL: the chunks are not encrypted */
	struct gck_codec *codec;
	json_t *objects;
	uint64_t *ends;              /* by object: 0, or how many bytes other ranks may read too */
	struct gck_readahead *ahead; /* NULL: there was no plan, or the reader rests */
	char *alone;                 /* a chunk that was not read ahead */
	bool failed;
};

/* Which objects are shared matters only with a node cache. */
static int load_ends(struct gck_reader *r, const json_t *manifest, struct gck_error *err)
{
	struct gck_chunks chunks;

	r->ends = calloc(json_array_size(gck_manifest_objects(manifest, NULL)) + 1,
			 sizeof *r->ends);
	if (!r->ends)
		return gck_fail(err, ENOMEM, "no memory to read from %s", r->s->b->where);
	if (!r->s->cache)
		return 0;
	if (gck_chunks_load(manifest, &chunks, err) < 0)
		return -1;
	gck_chunks_reach(&chunks, r->ends);
	gck_chunks_clear(&chunks);
	for (size_t i = 0; i < json_array_size(r->objects); i++)
		if (!gck_manifest_shares(manifest, i))
			r->ends[i] = 0;
	return 0;
}

struct gck_reader *gck_reader_open(struct gck_store *s, const json_t *manifest,
				   struct gck_error *err)
{
	const json_t *objects = gck_manifest_objects(manifest, err);
	struct gck_reader *r;

	if (!objects)
		return NULL;
	r = calloc(1, sizeof *r);
	if (!r) {
		gck_fail(err, ENOMEM, "no memory to read from %s", s->b->where);
		return NULL;
	}
	r->s = s;
	r->objects = json_copy((json_t *)objects);
	if (load_ends(r, manifest, err) == 0 && gck_document_key(s, manifest, &r->seal, err) == 0)
		r->codec = gck_codec_new(GCK_COMPRESS_NONE, 0, r->seal, err);
	if (r->codec && r->objects)
		return r;
	gck_reader_close(r);
	return NULL;
}

void gck_reader_close(struct gck_reader *r)
{
	if (!r)
		return;
	gck_readahead_close(r->ahead);
	free(r->alone);
	gck_codec_free(r->codec);
	json_decref(r->objects);
	free(r->ends);
	free(r);
}

static struct gck_readahead *open_ahead(struct gck_reader *r, struct gck_error *err)
{
	const struct gck_readahead_source source = { .objects = r->objects, .ends = r->ends,
						     .key = r->seal };

	return gck_readahead_open(r->s, &source, err);
}

int gck_reader_plan(struct gck_reader *r, gck_plan_fn *plan, void *arg, struct gck_error *err)
{
	if (plan && !r->ahead && !(r->ahead = open_ahead(r, err)))
		return -1;
	if (r->ahead)
		gck_readahead_plan(r->ahead, plan, arg);
	return 0;
}

void gck_reader_rest(struct gck_reader *r)
{
	gck_readahead_close(r->ahead);
	r->ahead = NULL;
}

/* cached: read through the node cache; otherwise from the store itself. */
static int fetch(struct gck_reader *r, const char *name, const struct gck_chunk *c, bool cached,
		 void *data, struct gck_error *err)
{
	bool raw = c->method == GCK_COMPRESS_NONE && !r->seal;
	void *stored = raw ? data : gck_codec_buffer(r->codec);
	struct gck_backend *b = r->s->b;
	struct gck_hash h;

	if ((cached ? gck_node_cache_get(r->s, name, r->ends[c->object], c->offset, stored,
					 c->stored, err) :
		    b->ops->get(b, name, c->offset, stored, c->stored, err)) < 0)
		return -1;
	if (gck_codec_decode(r->codec, c, stored, data, err) < 0)
		return gck_fail_in(err, "%s/%s at %u", b->where, name, c->offset);
	h = gck_hash_bytes(data, c->size);
	if (gck_hash_same(h, c->hash))
		return 0;
	return gck_fail(err, EBADMSG, "%s/%s at %u is damaged: %u bytes do not have their hash",
			b->where, name, c->offset, c->size);
}

/* A chunk counts as damaged only if the store's own copy is. If an object has two copies, the
 * damaged one is not read again. */
static int read_alone(struct gck_reader *r, const struct gck_chunk *c, void *data,
		      struct gck_error *err)
{
	const char *name = json_string_value(json_array_get(r->objects, c->object));
	struct gck_backend *b = r->s->b;
	struct gck_error why = { 0 };

	if (!name || c->size > GCK_CHUNK_MAX || c->stored > GCK_CHUNK_MAX + GCK_CODEC_EXTRA)
		return gck_fail(err, EINVAL, "chunk %u is not of this manifest", c->index);
	if (r->ends[c->object] && fetch(r, name, c, true, data, NULL) == 0)
		return 0;
	if (fetch(r, name, c, false, data, &why) == 0)
		return 0;
	if (why.code == EBADMSG && b->ops->distrust && b->ops->distrust(b, name))
		return fetch(r, name, c, false, data, err);
	if (err)
		*err = why;
	return -1;
}

const void *gck_reader_view(struct gck_reader *r, const struct gck_chunk *c, struct gck_error *err)
{
	const void *have = r->ahead ? gck_readahead_next(r->ahead, c) : NULL;

	if (have)
		return have;
	if (!r->alone && !(r->alone = malloc(GCK_CHUNK_MAX))) {
		gck_fail(err, ENOMEM, "no memory for a chunk of %s", r->s->b->where);
		return NULL;
	}
	if (read_alone(r, c, r->alone, err) == 0)
		return r->alone;
	r->failed = true;
	return NULL;
}

bool gck_reader_failed(const struct gck_reader *r)
{
	return r->failed;
}
