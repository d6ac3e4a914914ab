/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/flow.h"
#include "shim/kernels/pass/variables.h"

#define MOST_BYTES (16u << 20) /* of a thread's or a block's variable */

void gck_variables_clear(struct gck_variables *v)
{
	free(v->shared);
	free(v->local);
	*v = (struct gck_variables){ 0 };
}

/* [.extern] .shared [.align N] [.v4] .TYPE NAME[SIZE]…: from token first to before last. */
static int read_variable(const struct gck_ptx *ptx, struct gck_ptx_range at,
			 struct gck_variable *v, bool *is_dynamic)
{
	uint64_t size = 1, align = 0;
	uint32_t i = at.first;

	*v = (struct gck_variable){ 0 };
	*is_dynamic = false;
	for (; i < at.last && ptx->text[ptx->tokens[i].begin] == '.'; i++) {
		const char *text = ptx->text + ptx->tokens[i].begin + 1;

		if (gck_ptx_is(ptx, i, ".align"))
			align = strtoul(ptx->text + ptx->tokens[++i].begin, NULL, 10);
		else if (*text == 'v' && isdigit(text[1]))
			size *= strtoul(text + 1, NULL, 10);
		else if (strchr("busf", *text) && isdigit(text[1 + (text[1] == 'f')]))
			size *= strtoul(text + 1 + (text[1] == 'f'), NULL, 10) / 8;
	}
	if (i >= at.last || ptx->tokens[i].kind != GCK_PTX_WORD)
		return -1;
	v->name = i++;
	align = align ? align : size;
	for (; i + 1 < at.last && gck_ptx_is(ptx, i, "["); i += 3) {
		if (gck_ptx_is(ptx, i + 1, "]")) {
			*is_dynamic = true;
			break;
		}
		size *= strtoul(ptx->text + ptx->tokens[i + 1].begin, NULL, 0);
		if (size > MOST_BYTES)
			return -1;
	}
	v->size = *is_dynamic ? 0 : size;
	v->unit = align % 4 == 0 && v->size % 4 == 0 ? 4 : 1;
	return size && size <= MOST_BYTES ? 0 : -1;
}

static int add(struct gck_variable **array, size_t *n, const struct gck_variable *v,
	       struct gck_error *err)
{
	struct gck_variable *more = gck_ptx_grow(*array, *n, sizeof *more, err);

	if (!more)
		return -1;
	*array = more;
	more[(*n)++] = *v;
	return 0;
}

static int add_shared(struct gck_variables *v, struct gck_variable *one, bool is_dynamic,
		      struct gck_error *err)
{
	if (is_dynamic) {
		/* All of them begin at the same place. */
		if (v->is_dynamic)
			return 0;
		v->is_dynamic = true;
		one->unit = 4;
		return add(&v->shared, &v->n_shared, one, err);
	}
	one->offset = v->shared_size;
	v->shared_size += (one->size + 15) / 16 * 16;
	return add(&v->shared, &v->n_shared, one, err);
}

static int add_declared(struct gck_variables *v, const struct gck_ptx *ptx,
			const struct gck_ptx_statement *s, struct gck_error *err)
{
	bool is_shared = gck_ptx_is(ptx, s->op, ".shared"), is_dynamic;
	struct gck_variable one;

	if (!is_shared && !gck_ptx_is(ptx, s->op, ".local"))
		return 0;
	if (s->n_operands != 1 || s->depth ||
	    read_variable(ptx, (struct gck_ptx_range){ s->at.first, s->at.last }, &one,
			  &is_dynamic))
		return gck_flow_fail(ptx, s, err, "a %s variable that cannot be saved",
				     is_shared ? "shared" : "local");
	return is_shared ? add_shared(v, &one, is_dynamic, err)
			 : add(&v->local, &v->n_local, &one, err);
}

static bool names(const struct gck_ptx *ptx, const struct gck_ptx_function *f, uint32_t name)
{
	for (uint32_t i = f->header.last; i < f->at.last; i++)
		if (gck_ptx_same(ptx, i, name))
			return true;
	return false;
}

static bool is_shared_item(const struct gck_ptx *ptx, struct gck_ptx_range at)
{
	for (uint32_t i = at.first; i < at.last && i < at.first + 3; i++)
		if (gck_ptx_is(ptx, i, ".shared"))
			return true;
	return false;
}

static int add_module(struct gck_variables *v, const struct gck_ptx *ptx,
		      struct gck_ptx_range item, const bool *reached, struct gck_error *err)
{
	struct gck_variable one;
	bool is_dynamic, is_named = false;

	if (!is_shared_item(ptx, item))
		return 0;
	if (read_variable(ptx, item, &one, &is_dynamic))
		return gck_fail(err, EINVAL, "PTX line %u: a shared variable that cannot be saved",
				ptx->tokens[item.first].line);
	for (size_t f = 0; f < ptx->n_functions && !is_named; f++)
		is_named = reached[f] && names(ptx, &ptx->functions[f], one.name);
	return is_named ? add_shared(v, &one, is_dynamic, err) : 0;
}

int gck_variables_find(struct gck_variables *v, const struct gck_ptx *ptx,
		       const struct gck_ptx_function *kernel, const bool *reached,
		       struct gck_error *err)
{
	*v = (struct gck_variables){ 0 };
	for (size_t i = 0; i < ptx->n_items; i++)
		if (add_module(v, ptx, ptx->items[i], reached, err))
			return -1;
	for (uint32_t i = 0; i < kernel->n_statements; i++) {
		const struct gck_ptx_statement *s = &ptx->statements[kernel->statement + i];

		if (s->does == GCK_PTX_DIRECTIVE && add_declared(v, ptx, s, err))
			return -1;
	}
	for (size_t i = 0; i < v->n_shared; i++)
		if (!v->shared[i].size)
			v->shared[i].offset = v->shared_size;
	return 0;
}
