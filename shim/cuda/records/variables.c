/* SPDX-License-Identifier: Apache-2.0
 * The variables of a module, by its image: the driver does not list them. */
#include "shim/cuda/records/records.h"

#include <stdlib.h>
#include <string.h>

#include "shim/kernels/ptx/fatbin.h"
#include "shim/kernels/ptx/ptx.h"

void gck_record_variables_free(struct gck_record_variable *list)
{
	struct gck_record_variable *v;

	while ((v = list)) {
		list = v->next;
		free(v->data);
		free(v);
	}
}

/* The word before the first of `=`, `[` and `;` behind the state space; 0: it is no variable of the
 * device. -1: it cannot be told: several in one statement, or managed. */
static int name_of(const struct gck_ptx *ptx, struct gck_ptx_range item, uint32_t *name)
{
	bool is_variable = false;

	*name = 0;
	for (uint32_t t = item.first; t < item.last; t++) {
		if (gck_ptx_is(ptx, t, ".entry") || gck_ptx_is(ptx, t, ".func") ||
		    gck_ptx_is(ptx, t, ".extern"))
			return 0;
		if (gck_ptx_is(ptx, t, ".managed"))
			return -1;
		is_variable |= gck_ptx_is(ptx, t, ".global") || gck_ptx_is(ptx, t, ".const");
		if (is_variable && gck_ptx_is(ptx, t, ","))
			return -1;
		if (is_variable && (gck_ptx_is(ptx, t, "=") || gck_ptx_is(ptx, t, "[") ||
				    gck_ptx_is(ptx, t, ";"))) {
			*name = t - 1;
			return 0;
		}
	}
	return 0;
}

/* Parts of a fatbin have the same ones. */
static bool has(const struct gck_record_variable *v, const char *name, size_t n)
{
	while (v && (strncmp(v->name, name, n) || v->name[n]))
		v = v->next;
	return v;
}

static void add(void *arg, const char *name, size_t n)
{
	struct gck_record_variable **list = arg, *v;

	if (has(*list, name, n))
		return;
	v = calloc(1, sizeof *v + n + 1);
	if (!v)
		abort();
	memcpy(v->name, name, n);
	v->next = *list;
	*list = v;
}

static int ptx_variables(const char *image, struct gck_record_variable **list)
{
	struct gck_ptx *ptx = gck_ptx_read(image, strlen(image), NULL);
	int failed = ptx ? 0 : -1;

	for (size_t i = 0; ptx && i < ptx->n_items && !failed; i++) {
		uint32_t name;

		failed = name_of(ptx, ptx->items[i], &name);
		if (!failed && name)
			add(list, ptx->text + ptx->tokens[name].begin,
			    ptx->tokens[name].end - ptx->tokens[name].begin);
	}
	gck_ptx_free(ptx);
	return failed;
}

static int part_variables(const char *image, struct gck_record_variable **list)
{
	return gck_record_is_cubin(image) ? gck_record_cubin_variables(image, add, list)
					  : ptx_variables(image, list);
}

static int fatbin_variables(const char *image, struct gck_record_variable **list)
{
	size_t size = SIZE_MAX, at = 0;
	struct gck_error err;
	struct gck_fatbin_entry e;
	const void *fatbin = gck_fatbin_find(image, &size, &err);
	const char *content = NULL;
	int more = fatbin ? 1 : -1;

	while (more > 0 && (more = gck_fatbin_next(fatbin, size, &at, &e, &content, &err)) > 0) {
		char *part;

		if (e.kind != GCK_FATBIN_PTX && e.kind != GCK_FATBIN_CUBIN)
			continue;
		part = gck_fatbin_content(&e, content, &err);
		if (!part || part_variables(part, list))
			more = -1;
		free(part);
	}
	return more;
}

int gck_record_variables(const char *image, struct gck_record_variable **list)
{
	int failed;

	*list = NULL;
	failed = gck_record_is_fatbin(image) ? fatbin_variables(image, list)
					     : part_variables(image, list);
	if (failed) {
		gck_record_variables_free(*list);
		*list = NULL;
	}
	return failed;
}
