/* SPDX-License-Identifier: Apache-2.0
 * The list of those who wait for an operation. */
#include "coordinator/core/operations/waiter.h"

#include <stdio.h>
#include <stdlib.h>

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

void gck_waiter_free_all(struct gck_waiter **list)
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

void gck_waiter_end_all(struct gck_waiter **list, const char *error, const json_t *steps)
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
