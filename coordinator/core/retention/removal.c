/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/retention/removal.h"

#define ORDERS_MOST (256u << 10)             /* bytes in one message */
#define ORDER_AGAIN_MS (10 * 60 * INT64_C(1000)) /* an agent has given up by then */

json_t *gck_removal(const struct gck_step *step, json_t *seqs)
{
	json_t *r = gck_record(step, "remove");

	json_object_set(r, "seqs", seqs);
	json_object_set_new(r, "removals", json_integer((json_int_t)step->removals + 1));
	return r;
}

json_t *gck_sweep_order(const struct gck_step *step)
{
	uint32_t busy = step->intent.seq ? step->intent.seq : step->last_seq + 1;
	json_t *order = json_pack("{s:I, s:I, s:s, s:[], s:I, s:I}", "job",
				  (json_int_t)step->job->id, "step", (json_int_t)step->id, "store",
				  step->store, "keep", "busy", (json_int_t)busy, "removals",
				  (json_int_t)step->removals);

	for (const struct gck_commit *c = step->commits; c; c = c->older)
		json_array_append_new(json_object_get(order, "keep"), json_integer(c->seq));
	return order;
}

/* A long sweep must not be ordered again with every commit. */
static bool is_to_be_ordered(const struct gck_step *s, int64_t now_ms)
{
	return gck_step_unswept(s) && !gck_s3_is(s->store) &&
	       (!s->ordered_ms || now_ms < s->ordered_ms ||
		now_ms - s->ordered_ms > ORDER_AGAIN_MS);
}

json_t *gck_sweep_orders(struct gck_core *core, uid_t uid)
{
	json_t *all = json_array(), *order;
	int64_t now_ms = core->world->now_ms();
	size_t size = 0;

	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (struct gck_step *s = j->steps; s; s = s->next) {
			if (s->uid != uid || !is_to_be_ordered(s, now_ms))
				continue;
			order = gck_sweep_order(s);
			size += json_dumpb(order, NULL, 0, JSON_COMPACT) + 1;
			if (size > ORDERS_MOST) {
				json_decref(order);
				return all;
			}
			json_array_append_new(all, order);
			s->ordered_ms = now_ms;
		}
	return all;
}

void gck_swept(struct gck_core *core, uint32_t job, uint32_t step, uint32_t removals)
{
	struct gck_step *s = gck_state_step(&core->state, job, step);
	json_t *r;

	if (s)
		s->ordered_ms = 0;
	if (!s || !gck_step_unswept(s) || s->removals != removals)
		return;
	r = gck_record(s, "swept");
	json_object_set_new(r, "removals", json_integer(removals));
	gck_core_note(core, r, false);
}

void gck_swept_message(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body)
{
	json_int_t job, id, removals;
	json_t *one;
	size_t i;

	(void)node;
	json_array_foreach(json_object_get(body, "steps"), i, one) {
		const struct gck_step *s;

		if (json_unpack(one, "{s:I, s:I, s:I}", "job", &job, "step", &id, "removals",
				&removals))
			continue;
		s = gck_state_step(&core->state, (uint32_t)job, (uint32_t)id);
		if (s && s->uid == step->uid)
			gck_swept(core, s->job->id, s->id, (uint32_t)removals);
	}
}
