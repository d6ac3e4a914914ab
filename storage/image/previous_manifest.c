/* SPDX-License-Identifier: Apache-2.0
 * The previous commit's manifest, whose chunks a writer reuses. */
#include <stdlib.h>
#include <string.h>

#include "storage/image/previous_manifest.h"

#define UNKNOWN (-1)
#define UNUSABLE (-2)

static int load_objects(struct gck_previous *p, const json_t *names, struct gck_error *err)
{
	size_t n = json_array_size(names);

	p->objects = calloc(n + 1, sizeof *p->objects);
	if (!p->objects)
		return gck_fail(err, ENOMEM, "no memory for the manifest of the previous commit");
	for (p->nobjects = 0; p->nobjects < n; p->nobjects++) {
		struct gck_previous_object *o = &p->objects[p->nobjects];

		o->name = strdup(json_string_value(json_array_get(names, p->nobjects)));
		if (!o->name)
			return gck_fail(err, ENOMEM, "no memory for the names of objects");
		o->mapped = UNKNOWN;
	}
	return 0;
}

/* How long each object must be, and whether ranks share it. */
static int load_reach(struct gck_previous *p, const json_t *manifest, struct gck_error *err)
{
	uint64_t *reach = calloc(p->nobjects + 1, sizeof *reach);

	if (!reach)
		return gck_fail(err, ENOMEM, "no memory for the manifest of the previous commit");
	gck_chunks_reach(&p->table.chunks, reach);
	for (size_t i = 0; i < p->nobjects; i++) {
		p->objects[i].reach = reach[i];
		p->objects[i].shared = gck_manifest_shares(manifest, i);
	}
	free(reach);
	return 0;
}

int gck_previous_load(struct gck_previous *p, const json_t *manifest, struct gck_error *err)
{
	struct gck_chunks chunks;

	if (gck_chunks_load(manifest, &chunks, err) < 0 || gck_chunk_index_adopt(&p->table, &chunks,
										 err) < 0)
		return -1;
	if (load_objects(p, gck_manifest_objects(manifest, err), err) < 0)
		return -1;
	return load_reach(p, manifest, err);
}

void gck_previous_clear(struct gck_previous *p)
{
	for (size_t i = 0; i < p->nobjects; i++)
		free(p->objects[i].name);
	free(p->objects);
	gck_chunk_index_clear(&p->table);
	*p = (struct gck_previous){ .nobjects = 0 };
}

/* The new number of an object; a missing or truncated object is not used. */
static int64_t map_object(struct gck_previous_object *o, struct gck_backend *b, json_t *objects,
			  json_t *shared)
{
	uint64_t size;

	if (o->mapped != UNKNOWN)
		return o->mapped;
	o->mapped = UNUSABLE;
	if (b->ops->size(b, o->name, &size, NULL) == 0 && size >= o->reach &&
	    json_array_append_new(objects, json_string(o->name)) == 0)
		o->mapped = (int64_t)json_array_size(objects) - 1;
	if (o->shared && o->mapped >= 0)
		json_array_append_new(shared, json_integer(o->mapped));
	return o->mapped;
}

bool gck_previous_find(struct gck_previous *p, struct gck_backend *b, json_t *objects,
		       json_t *shared, struct gck_hash hash, uint32_t size, struct gck_chunk *found)
{
	struct gck_chunk old;
	int64_t object;

	if (!gck_chunk_index_find(&p->table, hash, size, &old))
		return false;
	object = map_object(&p->objects[old.object], b, objects, shared);
	if (object < 0)
		return false;
	*found = old;
	found->object = (uint32_t)object;
	return true;
}
