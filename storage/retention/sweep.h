/* SPDX-License-Identifier: Apache-2.0
 * Lists of names, and removing from a directory everything that is not in such a list. */
#ifndef GCK_SWEEP_H
#define GCK_SWEEP_H

#include <jansson.h>

#include "storage/base/open_store.h"

struct gck_name_list {
	char **v;
	size_t n, capacity;
};

GCK_MUST_CHECK int gck_name_list_add(struct gck_name_list *l, const char *name,
				     struct gck_error *err);
void gck_name_list_free(struct gck_name_list *l);

/* Sort the list, as gck_sweep_directory needs it. */
void gck_name_list_sort(struct gck_name_list *l);

/* Add the objects that a manifest names. */
GCK_MUST_CHECK int gck_name_list_add_objects(struct gck_name_list *l, const json_t *manifest,
					     struct gck_error *err);

/* Remove from a directory (with its '/') what `kept` (sorted) does not have, and the directory
 * itself if it is empty then. */
GCK_MUST_CHECK int gck_sweep_directory(struct gck_store *s, const char *dir,
				       const struct gck_name_list *kept, struct gck_error *err);

#endif
