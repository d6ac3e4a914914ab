/* SPDX-License-Identifier: Apache-2.0
 * The objects that a commit refers to, collected from its manifests. */
#ifndef GCK_COMMIT_OBJECTS_H
#define GCK_COMMIT_OBJECTS_H

#include "storage/store/manifest.h"

struct gck_object_extent {
	char *name;
	uint64_t length; /* the object must have at least this many bytes */
};

struct gck_commit_objects {
	struct gck_object_extent *v; /* by name */
	size_t n, capacity;
	uint64_t bytes; /* stored bytes of all ranks' chunks */
};

/* Read and check the manifests of all ranks. o is zeroed before, and freed in any case. */
GCK_MUST_CHECK int gck_commit_objects_load(struct gck_commit_objects *o, struct gck_store *s,
					   const json_t *commit, struct gck_error *err);

/* Add the objects of one manifest that was checked, decrypted or not. */
GCK_MUST_CHECK int gck_commit_objects_add(struct gck_commit_objects *o, const json_t *manifest,
					  struct gck_error *err);
void gck_commit_objects_free(struct gck_commit_objects *o);

#endif
