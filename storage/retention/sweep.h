/* SPDX-License-Identifier: Apache-2.0
 * Lists of names, and removing from a directory what is not in one. */
#ifndef GCK_SWEEP_H
#define GCK_SWEEP_H

#include "storage/store/internal.h"

struct gck_name_list {
	char **v;
	size_t n, room;
};

int gck_name_list_add(struct gck_name_list *l, const char *name, struct gck_error *err);
void gck_name_list_free(struct gck_name_list *l);

/* Before gck_name_list_has. */
void gck_name_list_sort(struct gck_name_list *l);
bool gck_name_list_has(const struct gck_name_list *l, const char *name);

/* The objects that a manifest names. */
int gck_name_list_add_objects(struct gck_name_list *l, const json_t *manifest, struct gck_error *err);

/* Remove what need (sorted) does not have from a directory (with its '/'), and the directory if that was
 * all. */
int gck_sweep_directory(struct gck_store *s, const char *dir, const struct gck_name_list *need,
			struct gck_error *err);

#endif
