/* SPDX-License-Identifier: Apache-2.0
 * Reading chunks of a manifest, each one verified: ahead by threads, or alone. */
#include <stdlib.h>
#include <string.h>

#include "storage/internal.h"
#include "storage/readahead.h"

struct gck_reader {
	struct gck_store *s;
	struct gck_codec *codec;
	json_t *objects;
	struct gck_readahead *ahead; /* NULL: nobody said what is wanted */
	char *alone;                 /* a chunk that was not read ahead */
};

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
	r->codec = gck_codec_new(GCK_COMPRESS_NONE, 0, err);
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
	free(r);
}

int gck_reader_plan(struct gck_reader *r, gck_plan_fn *plan, void *arg, struct gck_error *err)
{
	gck_readahead_close(r->ahead);
	r->ahead = plan ? gck_readahead_open(r->s, r->objects, plan, arg, err) : NULL;
	return plan && !r->ahead ? -1 : 0;
}

static int fetch(struct gck_reader *r, const char *name, const struct gck_chunk *c, void *data,
		 struct gck_error *err)
{
	struct gck_backend *b = r->s->b;
	void *stored = c->method == GCK_COMPRESS_NONE ? data : gck_codec_room(r->codec);

	if (b->ops->get(b, name, c->offset, stored, c->stored, err) < 0)
		return -1;
	if (gck_codec_decode(r->codec, c, stored, data, err) < 0)
		return gck_fail_in(err, "%s/%s at %u", b->where, name, c->offset);
	return 0;
}

static int read_alone(struct gck_reader *r, const struct gck_chunk *c, void *data,
		      struct gck_error *err)
{
	const char *name = json_string_value(json_array_get(r->objects, c->object));
	struct gck_hash h;

	if (!name || c->size > GCK_CHUNK_MAX || c->stored > GCK_CHUNK_MAX)
		return gck_fail(err, EINVAL, "chunk %u is not of this manifest", c->index);
	if (fetch(r, name, c, data, err) < 0)
		return -1;
	h = gck_hash_bytes(data, c->size);
	if (h.hi == c->hash.hi && h.lo == c->hash.lo)
		return 0;
	return gck_fail(err, EBADMSG, "%s/%s at %u is damaged: %u bytes do not have their hash",
			r->s->b->where, name, c->offset, c->size);
}

int gck_reader_get(struct gck_reader *r, const struct gck_chunk *c, void *data,
		   struct gck_error *err)
{
	const void *have = r->ahead ? gck_readahead_next(r->ahead, c) : NULL;

	if (!have)
		return read_alone(r, c, data, err);
	memcpy(data, have, c->size);
	return 0;
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
	return read_alone(r, c, r->alone, err) < 0 ? NULL : r->alone;
}
