/* SPDX-License-Identifier: Apache-2.0
 * What a commit needs: the union of its ranks' object tables, each object as long as the chunks in
 * it reach. */
#include "storage/need.h"

#include <stdlib.h>
#include <string.h>

static int add(struct gck_need *need, const char *name, uint64_t length, struct gck_error *err)
{
	if (need->n == need->room) {
		size_t room = need->room ? 2 * need->room : 64;
		struct gck_needed *v = reallocarray(need->v, room, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of objects");
		need->v = v;
		need->room = room;
	}
	need->v[need->n] = (struct gck_needed){ strdup(name), length };
	if (!need->v[need->n].name)
		return gck_fail(err, ENOMEM, "no memory for a list of objects");
	need->n++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gck_needed *)a)->name, ((const struct gck_needed *)b)->name);
}

/* Ranks have objects in common. */
static void unite(struct gck_need *need)
{
	size_t n = 0;

	if (need->n)
		qsort(need->v, need->n, sizeof *need->v, by_name);
	for (size_t i = 0; i < need->n; i++) {
		struct gck_needed *x = &need->v[i], *last = n ? &need->v[n - 1] : NULL;

		if (!last || strcmp(last->name, x->name)) {
			need->v[n++] = *x;
			continue;
		}
		if (last->length < x->length)
			last->length = x->length;
		free(x->name);
	}
	need->n = n;
}

static int add_objects(struct gck_need *need, const json_t *objects, const struct gck_chunk *v,
		       size_t n, struct gck_error *err)
{
	uint64_t *lengths = calloc(json_array_size(objects) + 1, sizeof *lengths);
	json_t *name;
	size_t i;
	int rc = 0;

	if (!lengths)
		return gck_fail(err, ENOMEM, "no memory for a list of objects");
	for (i = 0; i < n; i++) {
		uint64_t end = (uint64_t)v[i].offset + v[i].stored;

		if (lengths[v[i].object] < end)
			lengths[v[i].object] = end;
		need->bytes += v[i].stored;
	}
	json_array_foreach(objects, i, name)
		if (rc == 0)
			rc = add(need, json_string_value(name), lengths[i], err);
	free(lengths);
	return rc;
}

static int add_rank(struct gck_need *need, struct gck_store *s, const json_t *commit, uint32_t rank,
		    struct gck_error *err)
{
	json_t *manifest = gck_store_read_manifest(s, commit, rank, err);
	const json_t *objects = manifest ? gck_manifest_objects(manifest, err) : NULL;
	struct gck_chunk *v;
	size_t n;
	int rc = objects ? gck_chunks_load(manifest, &v, &n, err) : -1;

	if (rc == 0) {
		rc = add_objects(need, objects, v, n, err);
		free(v);
	}
	json_decref(manifest);
	return rc;
}

int gck_need_load(struct gck_need *need, struct gck_store *s, const json_t *commit,
		  struct gck_error *err)
{
	uint32_t rank;
	json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, entry) {
		if (!json_object_get(entry, "manifest"))
			continue;
		if (gck_json_u32(entry, "rank", &rank, err) < 0)
			return -1;
		if (add_rank(need, s, commit, rank, err) < 0)
			return gck_fail_in(err, "commit %lld, rank %u", (long long)json_integer_value(
					   json_object_get(commit, "seq")), rank);
	}
	unite(need);
	return 0;
}

void gck_need_free(struct gck_need *need)
{
	for (size_t i = 0; i < need->n; i++)
		free(need->v[i].name);
	free(need->v);
}
