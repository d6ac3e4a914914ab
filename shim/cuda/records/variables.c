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

/* Whether what is declared is the driver's own allocator, which the module's kernels call. */
static bool allocates(const struct gck_ptx *ptx, struct gck_ptx_range item)
{
	uint32_t t = item.first;

	while (t < item.last && !gck_ptx_is(ptx, t, "malloc"))
		t++;
	return t < item.last;
}

/* The word before the first of `=`, `[` and `;` behind the state space; 0: it is no variable of the
 * device. Returns why the module cannot be made again: several in one statement cannot be told. */
static const char *name_of(const struct gck_ptx *ptx, struct gck_ptx_range item, uint32_t *name)
{
	bool is_variable = false;

	*name = 0;
	for (uint32_t t = item.first; t < item.last; t++) {
		if (gck_ptx_is(ptx, t, ".extern"))
			return allocates(ptx, item) ? GCK_RECORD_ALLOCATES : NULL;
		if (gck_ptx_is(ptx, t, ".entry") || gck_ptx_is(ptx, t, ".func"))
			return NULL;
		if (gck_ptx_is(ptx, t, ".managed"))
			return GCK_RECORD_MANAGED;
		is_variable |= gck_ptx_is(ptx, t, ".global") || gck_ptx_is(ptx, t, ".const");
		if (is_variable && gck_ptx_is(ptx, t, ","))
			return GCK_RECORD_UNKNOWN;
		if (is_variable && (gck_ptx_is(ptx, t, "=") || gck_ptx_is(ptx, t, "[") ||
				    gck_ptx_is(ptx, t, ";"))) {
			*name = t - 1;
			return NULL;
		}
	}
	return NULL;
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

static const char *ptx_variables(const char *image, struct gck_record_variable **list)
{
	struct gck_ptx *ptx = gck_ptx_read(image, strlen(image), NULL);
	const char *why = ptx ? NULL : GCK_RECORD_UNKNOWN;

	for (size_t i = 0; ptx && i < ptx->n_items && !why; i++) {
		uint32_t name;

		why = name_of(ptx, ptx->items[i], &name);
		if (!why && name)
			add(list, ptx->text + ptx->tokens[name].begin,
			    ptx->tokens[name].end - ptx->tokens[name].begin);
	}
	gck_ptx_free(ptx);
	return why;
}

static const char *part_variables(const char *image, struct gck_record_variable **list)
{
	return gck_record_is_cubin(image) ? gck_record_cubin_variables(image, add, list)
					  : ptx_variables(image, list);
}

static const char *fatbin_variables(const char *image, struct gck_record_variable **list)
{
	size_t size = SIZE_MAX, at = 0;
	struct gck_error err;
	struct gck_fatbin_entry e;
	const void *fatbin = gck_fatbin_find(image, &size, &err);
	const char *content = NULL, *why = NULL;
	int more = fatbin ? 1 : -1;

	while (more > 0 && !why &&
	       (more = gck_fatbin_next(fatbin, size, &at, &e, &content, &err)) > 0) {
		char *part;

		if (e.kind != GCK_FATBIN_PTX && e.kind != GCK_FATBIN_CUBIN)
			continue;
		part = gck_fatbin_content(&e, content, &err);
		why = part ? part_variables(part, list) : GCK_RECORD_UNKNOWN;
		free(part);
	}
	return more < 0 ? GCK_RECORD_UNKNOWN : why;
}

const char *gck_record_variables(const char *image, struct gck_record_variable **list)
{
	const char *why;

	*list = NULL;
	why = gck_record_is_fatbin(image) ? fatbin_variables(image, list)
					  : part_variables(image, list);
	if (why) {
		gck_record_variables_free(*list);
		*list = NULL;
	}
	return why;
}
