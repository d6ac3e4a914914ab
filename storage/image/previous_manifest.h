/* SPDX-License-Identifier: Apache-2.0
 * The rank's manifest in the previous commit: its chunks need not be stored again. */
#ifndef GCK_PREVIOUS_MANIFEST_H
#define GCK_PREVIOUS_MANIFEST_H

#include "storage/base/backend.h"
#include "storage/store/chunks.h"

struct gck_previous_object {
	char *name;
	uint64_t reach; /* where its last chunk ends */
	bool shared;    /* other ranks may have it too */
	int64_t mapped; /* its number in the new manifest, or a constant of previous_manifest.c */
};

struct gck_previous {
	struct gck_chunk_index table;
	size_t nobjects;
	struct gck_previous_object *objects;
};

/* Load into a zeroed struct. Call gck_previous_clear after a failure too. */
GCK_MUST_CHECK int gck_previous_load(struct gck_previous *p, const json_t *manifest,
				     struct gck_error *err);
void gck_previous_clear(struct gck_previous *p);

/* Find a chunk of the previous commit. Its object becomes a number in `objects`, to which the name
 * is added at its first use, and also to `shared` if other ranks may have the object. false: the
 * commit has no such chunk, or the object is missing or cut off. */
bool gck_previous_find(struct gck_previous *p, struct gck_backend *b, json_t *objects,
		       json_t *shared, struct gck_hash hash, uint32_t size,
		       struct gck_chunk *found);

#endif
