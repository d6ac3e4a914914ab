/* SPDX-License-Identifier: Apache-2.0
 * The variables of a module, by its PTX: the driver does not list them. */
#include "shim/cuda/test/records/record.h"

#include <stdlib.h>
#include <string.h>

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

static void add(struct gck_record_variable **list, const struct gck_ptx *ptx, uint32_t name)
{
	size_t n = ptx->tokens[name].end - ptx->tokens[name].begin;
	struct gck_record_variable *v = calloc(1, sizeof *v + n + 1);

	if (!v)
		abort();
	memcpy(v->name, ptx->text + ptx->tokens[name].begin, n);
	v->next = *list;
	*list = v;
}

int gck_record_variables(const char *image, struct gck_record_variable **list)
{
	struct gck_ptx *ptx = gck_ptx_read(image, strlen(image), NULL);
	int failed = ptx ? 0 : -1;

	*list = NULL;
	for (size_t i = 0; ptx && i < ptx->n_items && !failed; i++) {
		uint32_t name;

		failed = name_of(ptx, ptx->items[i], &name);
		if (!failed && name)
			add(list, ptx, name);
	}
	gck_ptx_free(ptx);
	if (failed) {
		gck_record_variables_free(*list);
		*list = NULL;
	}
	return failed;
}
