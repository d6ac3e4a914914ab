/* SPDX-License-Identifier: Apache-2.0
 * The objects that a commit needs, out of its manifests. */
#ifndef GCK_COMMIT_OBJECTS_H
#define GCK_COMMIT_OBJECTS_H

#include "storage/store/internal.h"

struct gck_object_extent {
	char *name;
	uint64_t length; /* at least */
};

struct gck_commit_objects {
	struct gck_object_extent *v; /* by name */
	size_t n, room;
	uint64_t bytes; /* of all ranks' chunks, as they are stored */
};

/* Read and check the manifests of all ranks. need is zeroed before, and freed in any case. */
int gck_commit_objects_load(struct gck_commit_objects *need, struct gck_store *s, const json_t *commit,
		  struct gck_error *err);

/* The same of one manifest, which was checked, and opened or not: its own objects, once each. */
int gck_commit_objects_add(struct gck_commit_objects *need, const json_t *manifest, struct gck_error *err);
void gck_commit_objects_free(struct gck_commit_objects *need);

#endif
