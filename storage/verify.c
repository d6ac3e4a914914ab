/* SPDX-License-Identifier: Apache-2.0
 * Reading all that a commit needs. */
#include <stdlib.h>

#include "storage/need.h"
#include "storage/table.h"

struct verify {
	struct gck_store *s;
	uint64_t read, done, all; /* bytes of chunks, as they are stored */
	struct gck_table seen;    /* of objects that ranks share; `object` counts them over all ranks */
	json_t *shared;           /* names of these objects, and that number */
};

struct all_chunks {
	const struct gck_chunk *v;
	size_t n, at;
};

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct all_chunks *all = arg;

	if (all->at == all->n)
		return false;
	*c = all->v[all->at++];
	return true;
}

static int verify_chunks(struct verify *f, const json_t *manifest, const struct gck_chunk *v,
			 size_t n, struct gck_error *err)
{
	struct all_chunks all = { v, n, 0 };
	struct gck_reader *r = gck_reader_open(f->s, manifest, err);
	int rc = r ? gck_reader_plan(r, next_chunk, &all, err) : -1;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = gck_reader_view(r, &v[i], err) ? 0 : -1;
		f->read += v[i].stored;
		f->done += v[i].stored;
		if (rc == 0)
			rc = gck_store_progress(f->s, f->done, f->all, err);
	}
	gck_reader_close(r);
	return rc;
}

/* The number of an object that ranks share; -1: it is one rank's. */
static int64_t shared_number(struct verify *f, const json_t *manifest, uint32_t object)
{
	const char *name = json_string_value(json_array_get(gck_manifest_objects(manifest, NULL), object));
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

/* Was this very chunk read for another rank? If not it will be now. */
static bool was_seen(struct verify *f, int64_t object, struct gck_chunk c)
{
	const struct gck_chunk *had = gck_table_find(&f->seen, c.hash, c.size);

	c.object = (uint32_t)object;
	if (!had)
		gck_table_add(&f->seen, &c, NULL);
	return had && had->object == c.object && had->offset == c.offset && had->stored == c.stored &&
	       had->method == c.method;
}

/* What ranks share is read once: leave out what was. How many are left. */
static size_t leave_out_seen(struct verify *f, const json_t *manifest, struct gck_chunk *v, size_t n)
{
	size_t left = 0;
	int64_t number = -1;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || v[i].object != v[i - 1].object)
			number = shared_number(f, manifest, v[i].object);
		if (number >= 0 && was_seen(f, number, v[i]))
			f->done += v[i].stored;
		else
			v[left++] = v[i];
	}
	return left;
}

static int verify_rank(struct verify *f, const struct gck_ranks *r, struct gck_error *err)
{
	json_t *manifest = gck_ranks_open(r, f->s, err);
	struct gck_chunk *v;
	size_t n;
	int rc = manifest ? gck_chunks_load(manifest, &v, &n, err) : -1;

	if (rc == 0) {
		n = leave_out_seen(f, manifest, v, n);
		rc = verify_chunks(f, manifest, v, n, err);
		free(v);
	}
	json_decref(manifest);
	return rc < 0 ? gck_fail_in(err, "commit %u, rank %u", r->seq, r->rank) : 0;
}

static int verify_ranks(struct verify *f, const json_t *commit, struct gck_error *err)
{
	struct gck_ranks r;
	int rc;

	if (gck_ranks_of(&r, commit, err) < 0)
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
	struct gck_need need = { NULL, 0, 0, 0 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	int rc = commit ? gck_need_load(&need, s, commit, err) : -1;

	f.all = need.bytes;
	gck_need_free(&need);
	if (rc == 0)
		rc = verify_ranks(&f, commit, err);
	gck_table_clear(&f.seen);
	json_decref(f.shared);
	json_decref(commit);
	if (rc == 0 && bytes)
		*bytes = f.read;
	return rc;
}
