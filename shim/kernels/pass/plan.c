/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/flow/apart.h"
#include "shim/kernels/flow/lockstep.h"
#include "shim/kernels/pass/refuse.h"

static const struct gck_ptx_statement *at(const struct gck_plan *plan, uint32_t i)
{
	return &plan->flow.statements[i];
}

static int add_place(struct gck_plan *plan, enum gck_place_kind kind, uint32_t statement,
		     struct gck_error *err)
{
	struct gck_place *more = gck_ptx_grow(plan->places, plan->n_places, sizeof *more, err);

	if (!more)
		return -1;
	plan->places = more;
	more[plan->n_places++] =
		(struct gck_place){ .kind = kind, .statement = statement, .barrier = GCK_NONE };
	return 0;
}

static bool is_point(const struct gck_place *place)
{
	return place->kind == GCK_PLACE_MARK || place->kind == GCK_PLACE_BEFORE;
}

/* The statement of block b before which its threads can leave: behind labels and directives. */
static uint32_t begin_of(const struct gck_plan *plan, uint32_t b)
{
	uint32_t i = plan->flow.blocks[b].first;

	while (i + 1 < plan->flow.n_statements && (at(plan, i)->does == GCK_PTX_LABEL ||
						   at(plan, i)->does == GCK_PTX_DIRECTIVE))
		i++;
	return i;
}

/* Whether all threads of a warp leave together in block b, or need not. */
static bool may_leave(const struct gck_plan *plan, uint32_t b)
{
	return plan->warp == GCK_NONE || !gck_set_has(plan->graph.apart, b);
}

/* Whether a place is a point in the loop. */
static bool is_in(const struct gck_plan *plan, const struct gck_place *place,
		  const struct gck_loop *loop)
{
	return is_point(place) && gck_set_has(loop->body, plan->flow.block_of[place->statement]);
}

static bool has_point(const struct gck_plan *plan, const struct gck_loop *loop)
{
	for (size_t i = 0; i < plan->n_places; i++)
		if (is_in(plan, &plan->places[i], loop))
			return true;
	return false;
}

/* A point behind each barrier of a loop whose begin is no place for one. */
static int add_behind_barriers(struct gck_plan *plan, const struct gck_loop *loop,
			       struct gck_error *err)
{
	for (uint32_t i = 0; i + 1 < plan->flow.n_statements; i++) {
		uint32_t b = plan->flow.block_of[i];

		if ((plan->flow.traits[i] & GCK_BARRIER) && gck_set_has(loop->body, b) &&
		    plan->flow.block_of[i + 1] == b && may_leave(plan, b) && !at(plan, i)->guard &&
		    !at(plan, i)->depth &&
		    add_place(plan, GCK_PLACE_BEFORE, i + 1, err))
			return -1;
	}
	return 0;
}

static int add_auto(struct gck_plan *plan, struct gck_error *err)
{
	for (size_t i = 0; i < plan->graph.n_loops; i++) {
		const struct gck_loop *loop = &plan->graph.loops[i];
		int result = 0;

		if (!loop->is_outermost || has_point(plan, loop))
			continue;
		if (may_leave(plan, loop->header))
			result = add_place(plan, GCK_PLACE_BEFORE, begin_of(plan, loop->header),
					   err);
		else
			result = add_behind_barriers(plan, loop, err);
		if (result)
			return -1;
	}
	return 0;
}

/* Adds to `set` what is computed in the loop from what another thread may have written. */
static void follow_waited(const struct gck_plan *plan, const struct gck_loop *loop, uint64_t *set)
{
	const struct gck_flow *f = &plan->flow;
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < f->n_statements; i++) {
			bool depends = f->traits[i] & GCK_WAITED;

			if (!f->traits[i] || !gck_set_has(loop->body, f->block_of[i]))
				continue;
			for (uint32_t k = f->reference[i]; k < f->reference[i + 1]; k++)
				depends |= !f->references[k].is_written &&
					   gck_set_has(set, f->references[k].reg);
			for (uint32_t k = f->reference[i]; depends && k < f->reference[i + 1]; k++)
				if (f->references[k].is_written &&
				    !gck_set_has(set, f->references[k].reg)) {
					gck_set_add(set, f->references[k].reg);
					changed = true;
				}
		}
	}
}

/* Whether a loop's end depends on what other threads do, but for that of the loops in it whose
 * blocks are in `inner`. */
static bool waits(const struct gck_plan *plan, const struct gck_loop *loop, const uint64_t *set,
		  const uint64_t *inner)
{
	const struct gck_flow *f = &plan->flow;

	for (uint32_t b = 0; b < f->n_blocks; b++) {
		uint32_t last = f->blocks[b].last - 1;

		if (!gck_set_has(loop->body, b) || gck_set_has(inner, b) ||
		    !(f->traits[last] & (GCK_BRANCH | GCK_TABLE_BRANCH | GCK_ENDS)))
			continue;
		for (uint32_t k = f->reference[last]; k < f->reference[last + 1]; k++)
			if (gck_set_has(set, f->references[k].reg))
				return true;
	}
	return false;
}

/* A loop that waits for other threads gets a point, if it has none: they may have left. */
static int add_to_waiting(struct gck_plan *plan, const struct gck_loop *loop, struct gck_error *err)
{
	if (!has_point(plan, loop) &&
	    add_place(plan, GCK_PLACE_BEFORE, begin_of(plan, loop->header), err))
		return -1;
	for (size_t i = 0; i < plan->n_places; i++)
		if (is_in(plan, &plan->places[i], loop))
			plan->places[i].waits = true;
	return 0;
}

static int add_waiting(struct gck_plan *plan, struct gck_error *err)
{
	uint64_t *set = calloc(plan->flow.words, sizeof *set);
	uint64_t *inner = calloc(plan->graph.n / 64 + 1, sizeof *inner);
	int result = set && inner ? 0 : gck_fail(err, ENOMEM, "no memory for registers");

	for (size_t i = 0; i < plan->graph.n_loops && !result; i++) {
		const struct gck_loop *loop = &plan->graph.loops[i];

		memset(set, 0, plan->flow.words * sizeof *set);
		follow_waited(plan, loop, set);
		if (!waits(plan, loop, set, inner))
			continue;
		result = add_to_waiting(plan, loop, err);
		for (uint32_t b = 0; b < plan->graph.n; b++)
			if (gck_set_has(loop->body, b))
				gck_set_add(inner, b);
	}
	free(set);
	free(inner);
	return result;
}

/* Whether the threads of a warp may come to a point apart. */
static bool is_apart(const struct gck_plan *plan, const struct gck_place *place)
{
	return is_point(place) &&
	       gck_set_has(plan->graph.apart, plan->flow.block_of[place->statement]);
}

/* Finds the points at which a thread can leave alone, though those of its warp leave together at
 * the others, and do warp primitives together: who waits for others in a loop, before a barrier
 * at which all of the warp meet. */
static int find_alone(struct gck_plan *plan, struct gck_error *err)
{
	bool *stops = calloc(plan->flow.n_statements + 1, sizeof *stops);
	int result = stops ? 0 : gck_fail(err, ENOMEM, "no memory for statements");

	for (uint32_t i = 0; stops && i < plan->flow.n_statements; i++)
		stops[i] = plan->flow.traits[i] & GCK_WARP;
	for (size_t i = 0; stops && i < plan->n_places; i++)
		if (is_point(&plan->places[i]) && !is_apart(plan, &plan->places[i]))
			stops[plan->places[i].statement] = true;
	for (size_t i = 0; i < plan->n_places && !result; i++) {
		struct gck_place *p = &plan->places[i];

		if (!is_apart(plan, p))
			continue;
		result = gck_apart_awaited(&plan->graph, plan->flow.block_of[p->statement], stops,
					   &p->is_alone, &p->barrier, err);
		p->is_alone &= !plan->needs_barrier || p->barrier != GCK_NONE;
		p->barrier = p->is_alone && p->barrier != GCK_NONE
				     ? gck_flow_braces(&plan->flow, p->barrier) : GCK_NONE;
	}
	free(stops);
	return result;
}

/* How threads leave. Where no thread of a warp may be at a point without the others, or it can
 * leave alone there, all of a warp leave if one of them saw the word. If none can be alone,
 * barriers can count on whole warps. */
static int find_way(struct gck_plan *plan, struct gck_error *err)
{
	bool all_alone = true, is_apart_somewhere = false;

	plan->needs_barrier = plan->has_barriers || plan->variables.n_shared;
	if (find_alone(plan, err))
		return -1;
	for (size_t i = 0; i < plan->n_places; i++) {
		is_apart_somewhere |= is_apart(plan, &plan->places[i]);
		all_alone &= plan->places[i].is_alone || !is_apart(plan, &plan->places[i]);
	}
	plan->is_together = plan->warp != GCK_NONE || (plan->needs_barrier && all_alone);
	plan->is_aligned = plan->is_together && !is_apart_somewhere;
	return 0;
}

static int find_staying(struct gck_plan *plan, struct gck_error *err)
{
	bool *points = calloc(plan->flow.n_statements + 1, sizeof *points);
	int result;

	if (!points)
		return gck_fail(err, ENOMEM, "no memory for statements");
	for (size_t i = 0; i < plan->n_places; i++)
		points[plan->places[i].statement] = true;
	result = gck_lockstep_find(&plan->graph, points, &plan->stays, err);
	free(points);
	return result;
}

static int add_barriers(struct gck_plan *plan, struct gck_error *err)
{
	if (find_staying(plan, err))
		return -1;
	for (uint32_t i = 0; i < plan->flow.n_statements; i++)
		if ((plan->flow.traits[i] & GCK_BARRIER) && !plan->stays[i] &&
		    add_place(plan, GCK_PLACE_BARRIER, gck_flow_braces(&plan->flow, i), err))
			return -1;
	return 0;
}

/* What is live at a place must be in registers that are saved. */
static int check_live(const struct gck_plan *plan, const struct gck_place *place, uint64_t *live,
		      struct gck_error *err)
{
	const struct gck_flow *f = &plan->flow;
	const struct gck_ptx_statement *s = at(plan, place->statement);

	gck_flow_live(f, place->statement, live);
	for (uint32_t r = 0; r < f->n_registers; r++) {
		if (!gck_set_has(live, r) || r == GCK_SPECIAL ||
		    gck_set_has(plan->recompute.registers, r))
			continue;
		if (r == GCK_CARRY)
			return gck_flow_fail(f->ptx, s, err,
					     "the carry flag is used behind a point");
		if (!f->registers[r].depth && f->registers[r].bits > 64)
			return gck_flow_fail(f->ptx, s, err,
					     "register %.*s of %u bits is used behind a point",
					     GCK_PTX_TEXT(f->ptx, f->registers[r].token),
					     f->registers[r].bits);
	}
	return 0;
}

/* A thread that leaves apart from its warp, and not by a barrier at which they meet (plan.h): a
 * warp primitive would miss it, or its warp would wait for it. */
static int check_apart(const struct gck_plan *plan, const struct gck_place *place,
		       struct gck_error *err)
{
	const struct gck_ptx *ptx = plan->flow.ptx;
	const char *what = place->kind == GCK_PLACE_MARK ? "point"
							 : "loop that waits for other threads";

	if (!is_apart(plan, place) || place->is_alone)
		return 0;
	if (plan->warp != GCK_NONE)
		return gck_flow_fail(ptx, at(plan, place->statement), err, "the threads of a warp "
				     "may reach this %s apart, and the kernel uses %.*s", what,
				     GCK_PTX_TEXT(ptx, at(plan, plan->warp)->op));
	if (place->waits && plan->needs_barrier)
		return gck_flow_fail(ptx, at(plan, place->statement), err, "the threads of a warp "
				     "may reach this %s apart, and not all of them come to the "
				     "same barrier next", what);
	return 0;
}

static int check_places(const struct gck_plan *plan, struct gck_error *err)
{
	uint64_t *live = calloc(plan->flow.words, sizeof *live);
	int result = live ? 0 : gck_fail(err, ENOMEM, "no memory for registers");

	for (size_t i = 1; i < plan->n_places && !result; i++) {
		const struct gck_place *place = &plan->places[i];

		result = check_live(plan, place, live, err);
		if (!result)
			result = check_apart(plan, place, err);
	}
	free(live);
	return result;
}

static int by_statement(const void *a, const void *b)
{
	const struct gck_place *x = a, *y = b;

	if (x->statement != y->statement)
		return x->statement < y->statement ? -1 : 1;
	return (x->kind > y->kind) - (x->kind < y->kind);
}

/* By statement, each once; the entry stays the first. */
static void sort_places(struct gck_plan *plan)
{
	size_t n = 1;

	qsort(plan->places + 1, plan->n_places - 1, sizeof *plan->places, by_statement);
	for (size_t i = 1; i < plan->n_places; i++)
		if (n == 1 || by_statement(&plan->places[n - 1], &plan->places[i]))
			plan->places[n++] = plan->places[i];
	plan->n_places = n;
}

static int find_places(struct gck_plan *plan, bool is_auto, struct gck_error *err)
{
	if (add_place(plan, GCK_PLACE_ENTRY, 0, err))
		return -1;
	for (uint32_t i = 0; i < plan->flow.n_statements; i++)
		if (at(plan, i)->does == GCK_PTX_POINT &&
		    add_place(plan, GCK_PLACE_MARK, i, err))
			return -1;
	if (is_auto && add_auto(plan, err))
		return -1;
	return plan->n_places > 1 ? add_waiting(plan, err) : 0;
}

static bool has_marks(const struct gck_ptx *ptx, const struct gck_ptx_function *f)
{
	for (uint32_t i = 0; i < f->n_statements; i++)
		if (ptx->statements[f->statement + i].does == GCK_PTX_POINT)
			return true;
	return false;
}

bool gck_plan_meets(const struct gck_place *place, const struct gck_place *barrier)
{
	return barrier->kind == GCK_PLACE_BARRIER && place->barrier == barrier->statement;
}

void gck_plan_clear(struct gck_plan *plan)
{
	gck_flow_clear(&plan->flow);
	gck_graph_clear(&plan->graph);
	gck_variables_clear(&plan->variables);
	gck_recompute_clear(&plan->recompute);
	free(plan->places);
	free(plan->reached);
	free(plan->stays);
	*plan = (struct gck_plan){ 0 };
}

int gck_plan_make(struct gck_plan *plan, const struct gck_ptx *ptx, size_t function, bool is_auto,
		  struct gck_error *err)
{
	const struct gck_ptx_function *f = &ptx->functions[function];

	*plan = (struct gck_plan){ .warp = GCK_NONE };
	if (!f->has_body || !f->n_statements || (!is_auto && !has_marks(ptx, f)))
		return 0;
	plan->reached = calloc(ptx->n_functions + 1, 1);
	if (!plan->reached)
		return gck_fail(err, ENOMEM, "no memory for functions");
	plan->reached[function] = true;
	if (gck_flow_make(&plan->flow, ptx, f, err) || gck_refuse_kernel(plan, err) ||
	    gck_graph_make(&plan->graph, &plan->flow, err) ||
	    gck_variables_find(&plan->variables, ptx, f, plan->reached, err) ||
	    gck_recompute_find(&plan->recompute, &plan->flow, err) ||
	    find_places(plan, is_auto, err))
		return -1;
	if (plan->n_places == 1)
		return 0;
	plan->has_points = true;
	if (find_way(plan, err) || add_barriers(plan, err))
		return -1;
	sort_places(plan);
	return check_places(plan, err);
}
