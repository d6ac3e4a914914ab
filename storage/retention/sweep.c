/* SPDX-License-Identifier: Apache-2.0
 * Lists of names, and removing from a directory everything that is not in such a list. */
#include "storage/retention/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/base/parallel.h"
#include "storage/store/chunks.h"

void gck_name_list_free(struct gck_name_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

int gck_name_list_add(struct gck_name_list *l, const char *name, struct gck_error *err)
{
	char *copy;

	if (l->n == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : 64;
		char **v = reallocarray(l->v, capacity, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of names");
		l->v = v;
		l->capacity = capacity;
	}
	copy = strdup(name);
	if (!copy)
		return gck_fail(err, ENOMEM, "no memory for a list of names");
	l->v[l->n++] = copy;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void gck_name_list_sort(struct gck_name_list *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, compare_names);
}

static bool has_name(const struct gck_name_list *l, const char *name)
{
	return l->n && bsearch(&name, l->v, l->n, sizeof *l->v, compare_names);
}

int gck_name_list_add_objects(struct gck_name_list *l, const json_t *manifest,
			      struct gck_error *err)
{
	const json_t *objects = gck_manifest_objects(manifest, err);
	json_t *name;
	size_t i;
	int rc = objects ? 0 : -1;

	json_array_foreach(objects, i, name)
		if (rc == 0)
			rc = gck_name_list_add(l, json_string_value(name), err);
	return rc;
}

/* ---- removing ------------------------------------------------------------------------------- */

struct sweep {
	struct gck_store *s;
	const struct gck_name_list *kept;
	const char *dir;          /* with its '/' */
	struct gck_name_list found;
};

/* Only names that a store makes are removed. */
static int collect_unused(void *arg, const char *name, struct gck_error *err)
{
	struct sweep *w = arg;
	char full[GCK_NAME_MAX];
	uint32_t seq;

	if (snprintf(full, sizeof full, "%s%s", w->dir, name) >= (int)sizeof full ||
	    !(gck_name_is_content(full, &seq) || gck_name_is_temporary(full)) ||
	    has_name(w->kept, full))
		return 0;
	return gck_name_list_add(&w->found, full, err);
}

static int remove_one(void *arg, size_t i, struct gck_error *err)
{
	struct sweep *w = arg;

	return w->s->b->ops->remove(w->s->b, w->found.v[i], err);
}

int gck_sweep_directory(struct gck_store *s, const char *dir, const struct gck_name_list *kept,
			   struct gck_error *err)
{
	struct sweep w = { .s = s, .kept = kept, .dir = dir };
	int rc = s->b->ops->list(s->b, dir, collect_unused, &w, err);

	if (rc == 0)
		rc = gck_parallel(s->b->parallel, w.found.n, remove_one, &w, err);
	if (rc == 0)
		rc = s->b->ops->remove(s->b, dir, err);
	gck_name_list_free(&w.found);
	return rc;
}
