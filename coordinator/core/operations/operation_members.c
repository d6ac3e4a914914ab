/* SPDX-License-Identifier: Apache-2.0
 * An operation's own parts: its members, its waiters, its end. */
#include "coordinator/core/operations/operation_members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- members -------------------------------------------------------------------------------- */

struct member *gck_members_find(struct gck_operation *op, const struct gck_step *step)
{
	for (size_t i = 0; op && i < op->nmembers; i++)
		if (op->members[i].step == step)
			return &op->members[i];
	return NULL;
}

int gck_members_add(struct gck_operation *op, struct gck_step *step)
{
	struct member *m = realloc(op->members, (op->nmembers + 1) * sizeof *m);

	if (!m)
		return -1;
	op->members = m;
	m[op->nmembers++] = (struct member){.step = step, .result = json_object()};
	return 0;
}

size_t gck_members_count(const struct gck_operation *op, enum outcome outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < op->nmembers; i++)
		n += op->members[i].outcome == outcome;
	return n;
}

void gck_members_raise(struct gck_operation *op, enum outcome from, enum outcome to,
		      enum gck_event event)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		if (op->members[i].outcome != from)
			continue;
		op->members[i].outcome = to;
		gck_raise(op->core, op->members[i].step, event);
	}
}

bool gck_members_may(const struct gck_step *step)
{
	return step->live && step->live->phase != GCK_OVER && step->live->phase != GCK_DOOMED &&
	       step->live->phase != GCK_ENDING;
}

/* ---- one instant ---------------------------------------------------------------------------- */

static enum gck_phase phase_of(const struct member *m)
{
	return m->step->live->phase;
}

static bool is_point(enum gck_phase phase)
{
	return phase == GCK_PREPARED || phase == GCK_QUIESCED || phase == GCK_FROZEN ||
	       phase == GCK_RESUMED;
}

/* ---- the meeting ---------------------------------------------------------------------------- */

static bool all_reached(const struct gck_operation *op, enum gck_phase point)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		const struct member *m = &op->members[i];

		if (m->outcome == GOING &&
		    (phase_of(m) < point || phase_of(m) == GCK_ABORTING))
			return false;
	}
	return true;
}

void gck_instant_go(struct gck_core *core, struct gck_step *step)
{
	const struct gck_live *live = step->live;

	gck_raise(core, step, live->phase == GCK_FROZEN && live->checkpoint.held ? GCK_MET_HELD
										 : GCK_MET);
}

void gck_instant_check(struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		struct member *m = &op->members[i];

		if (m->outcome != GOING || !is_point(phase_of(m)) || m->met == phase_of(m) ||
		    !all_reached(op, phase_of(m)))
			continue;
		m->met = phase_of(m);
		gck_instant_go(op->core, m->step);
	}
}

bool gck_instant_open(const struct gck_operation *op)
{
	for (size_t i = 0; op->verb == GCK_CREATE && i < op->nmembers; i++) {
		const struct member *m = &op->members[i];

		if (m->outcome == COMMITTED ||
		    (m->outcome == GOING && (phase_of(m) == GCK_COMMITTING ||
					     phase_of(m) == GCK_HELD_COMMITTING)))
			return false;
	}
	return true;
}

/* One without orders yet, or whose ranks stay held until the end. */
static bool can_stay(const struct gck_operation *op, const struct member *m)
{
	return phase_of(m) < GCK_PREPARING ||
	       (op->verb != GCK_CREATE && phase_of(m) >= GCK_HELD_WRITING);
}

void gck_instant_call_back(struct gck_operation *op, const struct member *again)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		struct member *m = &op->members[i];

		if (m == again || m->outcome != GOING || m->waits || can_stay(op, m))
			continue;
		m->waits = true;
		gck_live_fail(m->step, EAGAIN, "all steps of the job are checkpointed at one "
			      "instant, and step %u.%u could not be: %s", again->step->job->id,
			      again->step->id, again->step->live->error.text);
		gck_raise(op->core, m->step, GCK_CANCEL);
	}
}

/* ---- waiters -------------------------------------------------------------------------------- */

int gck_waiter_add(struct gck_waiter **list, const struct gck_waiter *waiter)
{
	struct gck_waiter *w = malloc(sizeof *w);

	if (!w)
		return -1;
	*w = *waiter;
	w->next = *list;
	*list = w;
	return 0;
}

void gck_waiter_remove(struct gck_waiter **list, const void *arg)
{
	while (*list) {
		struct gck_waiter *w = *list;

		if (w->arg != arg) {
			list = &w->next;
			continue;
		}
		*list = w->next;
		free(w);
	}
}

bool gck_waiter_any_patient(const struct gck_waiter *list)
{
	while (list && !list->patient)
		list = list->next;
	return list;
}

static void waiter_free_all(struct gck_waiter **list)
{
	while (*list)
		gck_waiter_remove(list, (*list)->arg);
}

static json_t *phase_data(const struct gck_step *step)
{
	uint64_t done, all;
	const char *doing = gck_live_progress(step->live, &done, &all);
	json_t *data = json_pack("{s:I, s:I, s:I, s:s}", "job", (json_int_t)step->job->id, "step",
				 (json_int_t)step->id, "seq",
				 (json_int_t)step->live->checkpoint.seq, "phase", doing);

	if (all > 0) {
		json_object_set_new(data, "done", json_integer((json_int_t)done));
		json_object_set_new(data, "all", json_integer((json_int_t)all));
	}
	return data;
}

void gck_waiter_tell_phase(const struct gck_waiter *list, const struct gck_step *step)
{
	char text[160];
	json_t *data;

	if (!list)
		return;
	data = phase_data(step);
	snprintf(text, sizeof text, "step %u.%u: checkpoint %u: %s", step->job->id, step->id,
		 step->live->checkpoint.seq, json_string_value(json_object_get(data, "phase")));
	for (const struct gck_waiter *w = list; w; w = w->next)
		w->event(w->arg, text, data);
	json_decref(data);
}

static void waiter_end_all(struct gck_waiter **list, const char *error, const json_t *steps)
{
	while (*list) {
		struct gck_waiter *w = *list;

		*list = w->next;
		w->end(w->arg, error, steps);
		free(w);
	}
}

void gck_waiter_end_hasty(struct gck_waiter **list, const json_t *steps)
{
	while (*list) {
		struct gck_waiter *w = *list;

		if (w->wait) {
			list = &w->next;
			continue;
		}
		*list = w->next;
		w->end(w->arg, NULL, steps);
		free(w);
	}
}

/* ---- the operation -------------------------------------------------------------------------- */

struct gck_operation *gck_operation_of(const struct gck_step *step)
{
	return step->live ? step->live->checkpoint.operation : NULL;
}

void gck_operation_start(struct gck_operation *op, struct member *m)
{
	struct gck_checkpoint *c = &m->step->live->checkpoint;

	m->met = GCK_IDLE;
	c->operation = op;
	c->keep_held = op->verb != GCK_CREATE;
	snprintf(c->reason, sizeof c->reason, "%s", op->reason);
	gck_raise(op->core, m->step, GCK_START);
}

void gck_operation_free(struct gck_operation *op)
{
	for (size_t i = 0; i < op->nmembers; i++)
		json_decref(op->members[i].result);
	waiter_free_all(&op->waiters);
	free(op->members);
	free(op);
}

json_t *gck_operation_results(const struct gck_operation *op)
{
	json_t *steps = json_array();

	for (size_t i = 0; i < op->nmembers; i++) {
		json_t *r = op->members[i].result;

		json_object_set_new(r, "job", json_integer(op->members[i].step->job->id));
		json_object_set_new(r, "step", json_integer(op->members[i].step->id));
		json_array_append(steps, r);
	}
	return steps;
}

void gck_operation_finish(struct gck_operation *op)
{
	struct gck_operation **p = &op->core->operations;
	json_t *steps = gck_operation_results(op);

	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	for (size_t i = 0; i < op->nmembers; i++)
		if (gck_operation_of(op->members[i].step) == op)
			op->members[i].step->live->checkpoint.operation = NULL;
	waiter_end_all(&op->waiters, *op->error ? op->error : NULL, steps);
	json_decref(steps);
	gck_operation_free(op);
}

void gck_operation_error(struct gck_operation *op, const struct gck_step *step, const char *why)
{
	if (*op->error)
		return;
	if (step)
		snprintf(op->error, sizeof op->error, "step %u.%u: %s", step->job->id, step->id,
			 why);
	else
		snprintf(op->error, sizeof op->error, "%s", why);
}
