/* SPDX-License-Identifier: Apache-2.0
 * Verifying everything that a commit refers to, with or without reading the data. */
#include <pthread.h>
#include <stdlib.h>

#include "storage/base/parallel.h"
#include "storage/store/chunks.h"
#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/commit_objects.h"
#include "storage/store/store.h"

struct verify {
	struct gck_store *s;
	uint64_t read, done, all; /* bytes of chunks, as they are stored */
	/* Chunks of objects that ranks share; `object` counts the objects over all ranks. */
	struct gck_chunk_index seen;
	json_t *shared;           /* names of these objects, and that number */
};

/* The chunks of a manifest that are to be read. */
struct wanted {
	struct gck_chunks chunks;
	bool *leave_out;
	size_t at; /* the next one for the reader's plan */
};

static bool next_wanted(const struct wanted *x, size_t *at, struct gck_chunk *c)
{
	while (*at < x->chunks.rows.n && x->leave_out[*at])
		++*at;
	if (*at == x->chunks.rows.n)
		return false;
	*c = gck_chunks_at(&x->chunks, (*at)++);
	return true;
}

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct wanted *x = arg;

	return next_wanted(x, &x->at, c);
}

static int verify_chunks(struct verify *f, const json_t *manifest, struct wanted *x,
			 struct gck_error *err)
{
	struct gck_reader *r = gck_reader_open(f->s, manifest, err);
	int rc = r ? gck_reader_plan(r, next_chunk, x, err) : -1;
	struct gck_chunk c;
	size_t at = 0;

	while (rc == 0 && next_wanted(x, &at, &c)) {
		rc = gck_reader_view(r, &c, err) ? 0 : -1;
		f->read += c.stored;
		f->done += c.stored;
		if (rc == 0)
			rc = gck_store_progress(f->s, f->done, f->all, err);
	}
	gck_reader_close(r);
	return rc;
}

/* The number of an object that ranks share; -1: it is one rank's. */
static int64_t shared_number(struct verify *f, const json_t *manifest, uint32_t object)
{
	const char *name = json_string_value(json_array_get(gck_manifest_objects(manifest, NULL),
							    object));
	const json_t *known;

	if (!gck_manifest_shares(manifest, object))
		return -1;
	known = json_object_get(f->shared, name);
	if (!known) {
		known = json_integer((json_int_t)json_object_size(f->shared));
		json_object_set_new(f->shared, name, (json_t *)known);
	}
	return json_integer_value(known);
}

/* Was this chunk read for another rank? If not, note that it is read now. */
static bool was_seen(struct verify *f, int64_t object, struct gck_chunk c)
{
	struct gck_chunk had;

	c.object = (uint32_t)object;
	if (!gck_chunk_index_find(&f->seen, c.hash, c.size, &had)) {
		/* Without memory the next rank reads the chunk again. */
		(void)!gck_chunk_index_add(&f->seen, &c, NULL);
		return false;
	}
	return had.object == c.object && had.offset == c.offset && had.stored == c.stored &&
	       had.method == c.method;
}

/* Shared chunks are read once: leave out those that were read. */
static void leave_out_seen(struct verify *f, const json_t *manifest, struct wanted *x)
{
	int64_t object = -1, number = -1;

	for (size_t i = 0; i < x->chunks.rows.n; i++) {
		struct gck_chunk c = gck_chunks_at(&x->chunks, i);

		if (c.object != object)
			number = shared_number(f, manifest, c.object);
		object = c.object;
		x->leave_out[i] = number >= 0 && was_seen(f, number, c);
		f->done += x->leave_out[i] ? c.stored : 0;
	}
}

static int verify_rank(struct verify *f, const struct gck_ranks *r, struct gck_error *err)
{
	json_t *manifest = gck_ranks_read(r, f->s, err);
	struct wanted x = { .at = 0 };
	int rc = manifest ? gck_chunks_load(manifest, &x.chunks, err) : -1;

	if (rc == 0 && !(x.leave_out = calloc(x.chunks.rows.n + 1, sizeof *x.leave_out)))
		rc = gck_fail(err, ENOMEM, "no memory for a list of chunks");
	if (rc == 0) {
		leave_out_seen(f, manifest, &x);
		rc = verify_chunks(f, manifest, &x, err);
	}
	free(x.leave_out);
	gck_chunks_clear(&x.chunks);
	json_decref(manifest);
	return rc < 0 ? gck_fail_in(err, "commit %u, rank %u", r->seq, r->rank) : 0;
}

static int verify_ranks(struct verify *f, const json_t *commit, struct gck_error *err)
{
	struct gck_ranks r;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return -1;
	while ((rc = gck_ranks_next(&r, err)) > 0)
		if (verify_rank(f, &r, err) < 0)
			return -1;
	return rc;
}

int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *bytes,
		     struct gck_error *err)
{
	struct verify f = { .s = s, .shared = json_object() };
	struct gck_commit_objects refs = { NULL, 0, 0, 0 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	int rc = commit ? gck_commit_objects_load(&refs, s, commit, err) : -1;

	f.all = refs.bytes;
	gck_commit_objects_free(&refs);
	if (rc == 0)
		rc = verify_ranks(&f, commit, err);
	gck_chunk_index_clear(&f.seen);
	json_decref(f.shared);
	json_decref(commit);
	if (rc == 0 && bytes)
		*bytes = f.read;
	return rc;
}

/* ---- without reading the data --------------------------------------------------------------- */

struct check {
	struct gck_store *s;
	const struct gck_commit_objects *refs;
	pthread_mutex_t lock;
	size_t done;
};

static int check_object(void *arg, size_t i, struct gck_error *err)
{
	struct check *c = arg;
	struct gck_backend *b = c->s->b;
	const struct gck_object_extent *x = &c->refs->v[i];
	uint64_t length;
	int rc;

	if (b->ops->size(b, x->name, &length, err) < 0)
		return -1;
	if (length < x->length)
		return gck_fail(err, EBADMSG,
				"%s/%s is cut off: it has %llu bytes, %llu are needed", b->where,
				x->name, (unsigned long long)length, (unsigned long long)x->length);
	pthread_mutex_lock(&c->lock);
	rc = gck_store_progress(c->s, ++c->done, c->refs->n, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int check_objects(struct gck_store *s, const struct gck_commit_objects *refs,
			 struct gck_error *err)
{
	struct check c = { .s = s, .refs = refs, .lock = PTHREAD_MUTEX_INITIALIZER };

	return gck_parallel(s->b->parallel, refs->n, check_object, &c, err);
}

int gck_store_check(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *objects,
		    struct gck_error *err)
{
	struct gck_commit_objects refs = { NULL, 0, 0, 0 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	int rc = commit ? gck_commit_objects_load(&refs, s, commit, err) : -1;

	if (rc == 0 && (rc = check_objects(s, &refs, err)) < 0)
		gck_fail_in(err, "commit %u", seq);
	if (rc == 0 && objects)
		*objects = refs.n;
	gck_commit_objects_free(&refs);
	json_decref(commit);
	return rc;
}

int gck_store_check_rank(struct gck_store *s, const json_t *manifest, struct gck_error *err)
{
	struct gck_commit_objects refs = { NULL, 0, 0, 0 };
	int rc = gck_commit_objects_add(&refs, manifest, err);

	if (rc == 0)
		rc = check_objects(s, &refs, err);
	gck_commit_objects_free(&refs);
	return rc;
}
