/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint of their step. */
#include "coordinator/core/operations/rank_request.h"

#include <errno.h>
#include <stdio.h>

#include "coordinator/core/operations/operation.h"

/* Refuse all requests of the node up to now. */
static void refuse(struct gck_node *node, int code, const char *why)
{
	struct gck_rank_request *a = &node->request;

	a->failed = a->id;
	gck_live_send(a->core, node, json_pack("{s:s, s:I, s:i, s:s}", "op", "asked", "id",
					       (json_int_t)a->id, "code", code, "error", why));
}

/* A collective request has the same result for all ranks, also for late ones. */
static void remember(struct gck_node *node, const char *why)
{
	struct gck_live *live = node->request.step->live;

	if (node->request.all <= live->all_failed)
		return;
	live->all_failed = node->request.all;
	snprintf(live->all_why, sizeof live->all_why, "%s", why);
}

static void on_event(void *arg, const char *text, const json_t *data)
{
	(void)arg;
	(void)text;
	(void)data;
}

static void on_end(void *arg, const char *error, const json_t *steps)
{
	struct gck_node *node = arg;

	(void)steps;
	if (!error)
		return;
	remember(node, error);
	refuse(node, ECANCELED, error);
}

static void begin(struct gck_node *node, uint32_t rank)
{
	const struct gck_waiter waiter = {.arg = node, .wait = true, .event = on_event,
					  .end = on_end};
	struct gck_error err = {0};
	char reason[40];

	snprintf(reason, sizeof reason, "asked by rank %u", rank);
	if (!gck_operation_ask(node->request.core, node->request.step, reason, &waiter, &err))
		return;
	remember(node, err.text);
	refuse(node, err.code, err.text);
}

/* A restored rank may ask before all are released; it asks again. */
void gck_ask(struct gck_core *core, struct gck_step *step, struct gck_node *node,
	     const json_t *body)
{
	struct gck_rank_request *a = &node->request;
	json_int_t id = 0, rank = 0, all = 0;
	int one = 0;

	if (step->live->phase <= GCK_DOOMED)
		return;
	if (json_unpack((json_t *)body, "{s:I, s:I, s:b, s:I}", "id", &id, "rank", &rank, "one",
			&one, "all", &all) ||
	    id < 0 || (uint64_t)id <= a->failed || all < 0 || all > UINT32_MAX || rank < 0 ||
	    rank >= step->ntasks)
		return;
	a->core = core;
	a->step = step;
	if ((uint64_t)id > a->id)
		a->id = (uint64_t)id;
	if ((uint32_t)all > a->all)
		a->all = (uint32_t)all;
	if (all && all <= step->live->all_done)
		gck_live_send(core, node, json_pack("{s:s, s:I}", "op", "asked", "all",
						    (json_int_t)step->live->all_done));
	else if (all && !one && all <= step->live->all_failed)
		gck_live_send(core, node, json_pack("{s:s, s:I, s:I, s:i, s:s}", "op", "asked",
						    "rank", rank, "id", id, "code", ECANCELED,
						    "error", step->live->all_why));
	else
		begin(node, (uint32_t)rank);
}
