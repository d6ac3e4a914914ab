/* SPDX-License-Identifier: Apache-2.0
 * The objects that a commit refers to: the union of its ranks' object tables. Each object must
 * reach to the end of its last chunk. */
#include "storage/store/commit_objects.h"

#include <stdlib.h>
#include <string.h>

#include "storage/store/chunks.h"

static int add(struct gck_commit_objects *o, const char *name, uint64_t length,
	       struct gck_error *err)
{
	if (o->n == o->capacity) {
		size_t capacity = o->capacity ? 2 * o->capacity : 64;
		struct gck_object_extent *v = reallocarray(o->v, capacity, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of objects");
		o->v = v;
		o->capacity = capacity;
	}
	o->v[o->n] = (struct gck_object_extent){ strdup(name), length };
	if (!o->v[o->n].name)
		return gck_fail(err, ENOMEM, "no memory for a list of objects");
	o->n++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gck_object_extent *)a)->name,
		      ((const struct gck_object_extent *)b)->name);
}

/* Merge the entries of objects that several ranks share. */
static void unite(struct gck_commit_objects *o)
{
	size_t n = 0;

	if (o->n)
		qsort(o->v, o->n, sizeof *o->v, by_name);
	for (size_t i = 0; i < o->n; i++) {
		struct gck_object_extent *x = &o->v[i], *last = n ? &o->v[n - 1] : NULL;

		if (!last || strcmp(last->name, x->name)) {
			o->v[n++] = *x;
			continue;
		}
		if (last->length < x->length)
			last->length = x->length;
		free(x->name);
	}
	o->n = n;
}

/* Where the last chunk in each object ends, and the bytes of all chunks. free() the result. */
static uint64_t *reach_of_chunks(const json_t *manifest, uint64_t *bytes, struct gck_error *err)
{
	size_t objects = json_array_size(gck_manifest_objects(manifest, NULL));
	uint64_t *reach = calloc(objects + 1, sizeof *reach);
	struct gck_chunks chunks;

	if (!reach) {
		gck_fail(err, ENOMEM, "no memory for a list of objects");
		return NULL;
	}
	if (gck_chunks_load(manifest, &chunks, err) < 0) {
		free(reach);
		return NULL;
	}
	*bytes += gck_chunks_reach(&chunks, reach);
	gck_chunks_clear(&chunks);
	return reach;
}

/* Is the manifest still encrypted, so that its chunks are unknown? */
static bool is_encrypted(const json_t *manifest)
{
	return gck_document_is_encrypted(manifest) &&
	       !json_object_get(json_object_get(manifest, "store"), "chunks");
}

/* The same for an encrypted manifest, whose plain part holds the numbers. */
static uint64_t *reach_in_plain_part(const json_t *manifest, uint64_t *bytes, struct gck_error *err)
{
	const json_t *store = json_object_get(manifest, "store"),
		     *said = json_object_get(store, "reach");
	size_t n = json_array_size(said);
	uint64_t *reach = calloc(n + 1, sizeof *reach);

	if (!reach)
		gck_fail(err, ENOMEM, "no memory for a list of objects");
	else if (n != json_array_size(gck_manifest_objects(manifest, NULL)))
		gck_fail(err, EBADMSG, "the manifest does not say how long its objects are");
	else {
		for (size_t i = 0; i < n; i++)
			reach[i] = (uint64_t)json_integer_value(json_array_get(said, i));
		*bytes += (uint64_t)json_integer_value(json_object_get(store, "bytes"));
		return reach;
	}
	free(reach);
	return NULL;
}

int gck_commit_objects_add(struct gck_commit_objects *o, const json_t *manifest,
			   struct gck_error *err)
{
	const json_t *objects = gck_manifest_objects(manifest, err);
	uint64_t *reach;
	json_t *name;
	size_t i;
	int rc = 0;

	if (!objects)
		return -1;
	reach = (is_encrypted(manifest) ? reach_in_plain_part : reach_of_chunks)(manifest,
										 &o->bytes, err);
	if (!reach)
		return -1;
	json_array_foreach(objects, i, name)
		if (rc == 0)
			rc = add(o, json_string_value(name), reach[i], err);
	free(reach);
	return rc;
}

static int add_rank(struct gck_commit_objects *o, struct gck_store *s, const struct gck_ranks *r,
		    struct gck_error *err)
{
	json_t *manifest = gck_ranks_read_raw(r, s, err);
	int rc = manifest ? gck_commit_objects_add(o, manifest, err) : -1;

	json_decref(manifest);
	return rc < 0 ? gck_fail_in(err, "commit %u, rank %u", r->seq, r->rank) : 0;
}

int gck_commit_objects_load(struct gck_commit_objects *o, struct gck_store *s, const json_t *commit,
		  struct gck_error *err)
{
	struct gck_ranks r;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return -1;
	while ((rc = gck_ranks_next(&r, err)) > 0)
		if (add_rank(o, s, &r, err) < 0)
			return -1;
	if (rc == 0)
		unite(o);
	return rc;
}

void gck_commit_objects_free(struct gck_commit_objects *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->v[i].name);
	free(o->v);
}
