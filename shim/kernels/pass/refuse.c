/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "shim/kernels/pass/grid.h"
#include "shim/kernels/pass/refuse.h"

#define OLDEST 70 /* sm_70: each thread has its own place in the program */

int gck_refuse_marks(const struct gck_ptx *ptx, const struct gck_ptx_function *f,
		     struct gck_error *err)
{
	for (uint32_t i = 0; i < f->n_statements; i++) {
		const struct gck_ptx_statement *s = &ptx->statements[f->statement + i];

		if (s->does == GCK_PTX_POINT)
			return gck_flow_fail(ptx, s, err, "a point in function %.*s, which was not "
					     "inlined: declare it __forceinline__",
					     GCK_PTX_TEXT(ptx, f->name));
	}
	return 0;
}

/* .target sm_90a */
static int check_target(const struct gck_ptx *ptx, const struct gck_ptx_statement *at,
			struct gck_error *err)
{
	for (size_t i = 0; i < ptx->n_items; i++) {
		uint32_t target = ptx->items[i].first;
		unsigned long number = 0;

		if (!gck_ptx_is(ptx, target, ".target"))
			continue;
		if (target + 1 < ptx->n_tokens && gck_ptx_begins(ptx, target + 1, "sm_"))
			number = strtoul(ptx->text + ptx->tokens[target + 1].begin + 3, NULL, 10);
		if (number < OLDEST)
			return gck_flow_fail(ptx, at, err, "points need a GPU from sm_%d on",
					     OLDEST);
		return 0;
	}
	return gck_flow_fail(ptx, at, err, "the module names no .target");
}

/* Whether statement i is in braces that hold no branch and no other barrier. */
static bool is_straight(const struct gck_flow *flow, uint32_t i)
{
	uint32_t at = gck_flow_braces(flow, i) + 1;

	for (; flow->statements[at].depth; at++)
		if (at != i && (flow->traits[at] & (GCK_BARRIER | GCK_BRANCH | GCK_TABLE_BRANCH |
						    GCK_ENDS | GCK_CALL)))
			return false;
	return true;
}

/* Clusters, by a directive of the kernel. */
static int check_header(const struct gck_ptx *ptx, const struct gck_ptx_function *f,
			const struct gck_ptx_statement *at, struct gck_error *err)
{
	static const char *const clusters[] = { ".reqnctapercluster", ".explicitcluster",
						".maxclusterrank", ".blocksareclusters" };

	for (uint32_t i = f->header.first; i < f->header.last; i++)
		for (size_t k = 0; k < sizeof clusters / sizeof *clusters; k++)
			if (gck_ptx_is(ptx, i, clusters[k]))
				return gck_flow_fail(ptx, at, err, "a kernel of clusters");
	return 0;
}

static bool is_name_of_function(const struct gck_ptx *ptx, uint32_t token)
{
	for (size_t i = 0; i < ptx->n_functions; i++)
		if (ptx->functions[i].name == token)
			return true;
	return false;
}

/* Device code that has its address may launch it, and does not prepare that as the host does. */
static int check_address(const struct gck_ptx *ptx, const struct gck_ptx_function *f,
			 const struct gck_ptx_statement *at, struct gck_error *err)
{
	for (uint32_t i = 0; i < ptx->n_tokens; i++)
		if (gck_ptx_same(ptx, i, f->name) && !is_name_of_function(ptx, i))
			return gck_flow_fail(ptx, at, err, "a kernel that device code may launch");
	return 0;
}

/* Special registers of what is not saved, and names of the pass itself. */
static int check_names(const struct gck_ptx *ptx, const struct gck_ptx_statement *s,
		       struct gck_error *err)
{
	static const struct {
		const char *name, *why;
	} names[] = {
		{ "%envreg", "a register of the driver (%envreg), not as grid.sync reads it" },
		{ "%cluster", "a kernel of clusters" },
		{ "%ncluster", "a kernel of clusters" },
		{ "%is_explicit_cluster", "a kernel of clusters" },
		{ "%gck_", "a kernel that has been through gckcc already" },
		{ "$gck_", "a kernel that has been through gckcc already" },
	};

	for (uint32_t i = s->at.first; i < s->at.last; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (gck_ptx_begins(ptx, i, names[k].name))
				return gck_flow_fail(ptx, s, err, "%s", names[k].why);
	return 0;
}

/* bar.sync 0; bar.red.popc.u32 D, 0, P; without a number of threads. */
static int check_barrier(const struct gck_flow *flow, uint32_t i, struct gck_error *err)
{
	const struct gck_ptx *ptx = flow->ptx;
	const struct gck_ptx_statement *s = &flow->statements[i];
	bool reduces = gck_instruction_has(ptx, s->op, "red");
	struct gck_ptx_range id;

	if (s->depth && (s->depth > 1 || s->guard || !is_straight(flow, i)))
		return gck_flow_fail(ptx, s, err, "a barrier within a block of inline assembly");
	if (s->n_operands <= reduces)
		return gck_flow_fail(ptx, s, err, "a barrier without a number");
	id = ptx->operands[s->operand + reduces];
	if (id.last - id.first != 1 || !gck_ptx_is(ptx, id.first, "0"))
		return gck_flow_fail(ptx, s, err, "a named barrier");
	if (s->n_operands != (reduces ? 3 : 1))
		return gck_flow_fail(ptx, s, err, "a barrier of a part of the block");
	return 0;
}

static size_t find_function(const struct gck_ptx *ptx, uint32_t name)
{
	size_t found = ptx->n_functions;

	for (size_t i = 0; i < ptx->n_functions; i++)
		if (gck_ptx_same(ptx, ptx->functions[i].name, name) &&
		    (found == ptx->n_functions || ptx->functions[i].has_body))
			found = i;
	return found;
}

/* call [(RESULTS),] NAME[, (ARGUMENTS)]: marks the function as reached. */
static int check_call(struct gck_plan *plan, const struct gck_ptx_statement *s,
		      struct gck_error *err)
{
	static const char *const known[] = { "vprintf", "malloc", "free", "__assertfail" };
	const struct gck_ptx *ptx = plan->flow.ptx;
	const struct gck_ptx_range *o = &ptx->operands[s->operand];
	uint32_t at = s->n_operands && gck_ptx_is(ptx, o->first, "(") ? 1 : 0;
	size_t f;

	if (s->n_operands <= at)
		return gck_flow_fail(ptx, s, err, "a call of nothing");
	f = find_function(ptx, o[at].first);
	if (f == ptx->n_functions)
		return gck_flow_fail(ptx, s, err, "a call by a function pointer");
	if (ptx->functions[f].has_body) {
		plan->reached[f] = true;
		return 0;
	}
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (gck_ptx_is(ptx, o[at].first, known[i]))
			return 0;
	return gck_flow_fail(ptx, s, err, "a call of %.*s, which is not in this file",
			     GCK_PTX_TEXT(ptx, o[at].first));
}

static int check_kernel_statement(struct gck_plan *plan, uint32_t i, struct gck_error *err)
{
	const struct gck_flow *flow = &plan->flow;
	const struct gck_ptx_statement *s = &flow->statements[i];
	unsigned traits = flow->traits[i];
	const char *why;

	if (s->depth && s->does == GCK_PTX_LABEL)
		return gck_flow_fail(flow->ptx, s, err, "a label in inline assembly");
	if (s->depth && s->does == GCK_PTX_POINT)
		return gck_flow_fail(flow->ptx, s, err, "a point within inline assembly");
	if (traits & GCK_REFUSED) {
		gck_instruction_traits(flow->ptx, s->op, &why);
		return gck_flow_fail(flow->ptx, s, err, "%s (%.*s)", why,
				     GCK_PTX_TEXT(flow->ptx, s->op));
	}
	if (gck_grid_is(flow->ptx, s)) {
		plan->flow.traits[i] |= GCK_GRID;
		plan->has_grid = true;
	} else if (check_names(flow->ptx, s, err)) {
		return -1;
	}
	if ((traits & GCK_CALL) && check_call(plan, s, err))
		return -1;
	if ((traits & GCK_BARRIER) && check_barrier(flow, i, err))
		return -1;
	plan->has_barriers |= !!(traits & GCK_BARRIER);
	plan->is_async |= !!(traits & GCK_ASYNC);
	if ((traits & GCK_WARP) && plan->warp == GCK_NONE)
		plan->warp = i;
	return 0;
}

/* A function that is called: its threads cannot leave in it, so it must not wait. */
static int check_callee(struct gck_plan *plan, const struct gck_ptx_function *f,
			struct gck_error *err)
{
	const struct gck_ptx *ptx = plan->flow.ptx;
	bool waits = false, branches = false;
	const char *why;

	for (uint32_t i = 0; i < f->n_statements; i++) {
		const struct gck_ptx_statement *s = &ptx->statements[f->statement + i];
		unsigned traits = s->does == GCK_PTX_INSTRUCTION
					  ? gck_instruction_traits(ptx, s->op, &why) : 0;

		if (traits & GCK_REFUSED)
			return gck_flow_fail(ptx, s, err, "%s (%.*s), in a function that a kernel "
					     "with points calls", why, GCK_PTX_TEXT(ptx, s->op));
		if (traits & (GCK_BARRIER | GCK_WARP | GCK_ASYNC))
			return gck_flow_fail(ptx, s, err, "%.*s, in function %.*s that a kernel "
					     "with points calls: declare it __forceinline__",
					     GCK_PTX_TEXT(ptx, s->op),
					     GCK_PTX_TEXT(ptx, f->name));
		if (s->does == GCK_PTX_DIRECTIVE && gck_ptx_is(ptx, s->op, ".shared"))
			return gck_flow_fail(ptx, s, err, "shared memory of function %.*s that a "
					     "kernel with points calls",
					     GCK_PTX_TEXT(ptx, f->name));
		if (gck_grid_is(ptx, s))
			return gck_flow_fail(ptx, s, err, "a barrier of the grid (grid.sync), in "
					     "function %.*s that a kernel with points calls: "
					     "declare it __forceinline__",
					     GCK_PTX_TEXT(ptx, f->name));
		if (check_names(ptx, s, err) || ((traits & GCK_CALL) && check_call(plan, s, err)))
			return -1;
		waits |= !!(traits & GCK_WAITED);
		branches |= !!(traits & (GCK_BRANCH | GCK_TABLE_BRANCH));
		if (waits && branches)
			return gck_flow_fail(ptx, s, err, "function %.*s, which a kernel with "
					     "points calls, may wait for other threads",
					     GCK_PTX_TEXT(ptx, f->name));
	}
	return 0;
}

static int check_callees(struct gck_plan *plan, struct gck_error *err)
{
	const struct gck_ptx *ptx = plan->flow.ptx;
	size_t own = plan->flow.function - ptx->functions;
	bool *checked = calloc(ptx->n_functions + 1, 1), more = true;
	int result = checked ? 0 : gck_fail(err, ENOMEM, "no memory for functions");

	while (!result && more) {
		more = false;
		for (size_t f = 0; f < ptx->n_functions && !result; f++)
			if (f != own && plan->reached[f] && !checked[f]) {
				checked[f] = more = true;
				result = check_callee(plan, &ptx->functions[f], err);
			}
	}
	free(checked);
	return result;
}

int gck_refuse_kernel(struct gck_plan *plan, struct gck_error *err)
{
	const struct gck_flow *flow = &plan->flow;
	const struct gck_ptx_statement *first = flow->statements;

	while (first->does != GCK_PTX_POINT && first + 1 < flow->statements + flow->n_statements)
		first++;
	if (check_target(flow->ptx, first, err) ||
	    check_header(flow->ptx, flow->function, first, err) ||
	    check_address(flow->ptx, flow->function, first, err))
		return -1;
	plan->warp = GCK_NONE;
	for (uint32_t i = 0; i < flow->n_statements; i++)
		if (check_kernel_statement(plan, i, err))
			return -1;
	if (plan->has_grid && gck_grid_check(flow, err))
		return -1;
	return check_callees(plan, err);
}
