/* SPDX-License-Identifier: Apache-2.0
 * Lists of names, and removing from a directory what is not in one. */
#ifndef GCK_SWEEP_H
#define GCK_SWEEP_H

#include "storage/store/internal.h"

struct gck_names {
	char **v;
	size_t n, room;
};

int gck_names_add(struct gck_names *l, const char *name, struct gck_error *err);
void gck_names_free(struct gck_names *l);

/* Before gck_names_have. */
void gck_names_sort(struct gck_names *l);
bool gck_names_have(const struct gck_names *l, const char *name);

/* The objects that a manifest names. */
int gck_names_add_objects(struct gck_names *l, const json_t *manifest, struct gck_error *err);

/* Remove what need (sorted) does not have from a directory (with its '/'), and the directory if that was
 * all. */
int gck_sweep_directory(struct gck_store *s, const char *dir, const struct gck_names *need,
			struct gck_error *err);

#endif
