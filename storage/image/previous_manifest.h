/* SPDX-License-Identifier: Apache-2.0
 * The rank's manifest in the commit before: chunks that are there and need not be stored again. */
#ifndef GCK_PREVIOUS_MANIFEST_H
#define GCK_PREVIOUS_MANIFEST_H

#include "storage/image/chunk_index.h"
#include "storage/store/internal.h"

struct gck_previous_object {
	char *name;
	uint64_t need;  /* bytes that its chunks reach to */
	bool shared;    /* other ranks may have it too */
	int64_t mapped; /* number in the new manifest, or one of those in previous.c */
};

struct gck_previous {
	struct gck_chunk_index table;
	size_t nobjects;
	struct gck_previous_object *objects;
};

/* Fill in what is zeroed. A failure leaves something for gck_previous_clear. */
int gck_previous_load(struct gck_previous *p, const json_t *manifest, struct gck_error *err);
void gck_previous_clear(struct gck_previous *p);

/* The chunk as the commit before has it, its object a number in `objects`, where the name is added
 * when it is first used; in `shared`, too, if other ranks may have it. false: it has not, or the object
 * is gone or cut. */
bool gck_previous_find(struct gck_previous *p, struct gck_backend *b, json_t *objects,
		       json_t *shared, struct gck_hash hash, uint32_t size, struct gck_chunk *found);

#endif
