/* SPDX-License-Identifier: Apache-2.0
 * "able": what would prevent a checkpoint, asked of every agent of a job or step. */
#include "coordinator/daemon/requests/requests.h"

#include <stdlib.h>

#include "coordinator/core/actions/commit_document.h"
#include "coordinator/core/operations/operation.h"

#define WAIT_S 5.0

struct able {
	struct able *next;
	struct gck_peer *peer;
	struct gck_daemon *daemon;
	uint32_t job, step;
	ev_timer timer;
};

static struct able *questions;

static bool is_asked(const struct able *q, const struct gck_step *step)
{
	return step->live && step->live->phase != GCK_OVER &&
	       (q->step == GCK_EVERY_STEP || q->step == step->id);
}

static void add_item(json_t *items, const char *node, const char *reason, const char *remedy)
{
	json_array_append_new(items, json_pack("{s:n, s:s, s:s, s:s, s:b}", "rank", "object", node,
					       "reason", reason, "remedy", remedy, "refuse", 1));
}

static void add_node(json_t *items, const struct gck_node *node)
{
	const char *name = *node->name ? node->name : "a node";

	if (node->over)
		return;
	if (!node->agent)
		add_item(items, name, "its agent is not connected",
			 "see the agent's log on that node");
	else if (!node->items)
		add_item(items, name, "its agent does not answer",
			 "see the agent's log on that node");
	else
		json_array_extend(items, node->items);
}

static bool stands_in_the_way(const json_t *items)
{
	json_t *item;
	size_t i;

	json_array_foreach(items, i, item)
		if (json_is_true(json_object_get(item, "refuse")))
			return true;
	return false;
}

/* MPI threads in a quiesce answer nothing else. */
static bool is_held(const struct gck_live *live)
{
	return gck_phase_holds(live->phase) || live->phase == GCK_QUIESCING ||
	       live->phase == GCK_QUIESCED;
}

static json_t *step_verdict(struct gck_core *core, const struct gck_step *step)
{
	const struct gck_live *live = step->live;
	json_t *items = json_array();
	struct gck_error err = {0};

	if (step->disabled)
		add_item(items, "step", "checkpoints are disabled", "gpuckpt enable");
	if (gck_document_fits(step, &err))
		add_item(items, "step", err.text, "use several steps");
	if (gck_encrypt_able(core, step, &err))
		add_item(items, "step", err.text, "ask the administrator, or encrypt=no");
	if (live->phase <= GCK_DOOMED)
		add_item(items, "step", "it is being restarted", "wait until it runs");
	else if (is_held(live))
		add_item(items, "step", "its ranks are held by a checkpoint", "ask again");
	for (uint32_t i = 0; i < live->nnodes && !is_held(live); i++)
		add_node(items, &live->nodes[i]);
	return json_pack("{s:I, s:I, s:b, s:o}", "job", (json_int_t)step->job->id, "step",
			 (json_int_t)step->id, "able", !stands_in_the_way(items), "items", items);
}

static bool all_answered(const struct able *q, const struct gck_job *job)
{
	for (const struct gck_step *step = job->steps; step; step = step->next) {
		if (!is_asked(q, step))
			continue;
		for (uint32_t i = 0; i < step->live->nnodes; i++)
			if (step->live->nodes[i].agent && !step->live->nodes[i].over &&
			    !step->live->nodes[i].items)
				return false;
	}
	return true;
}

static void end(struct able *q)
{
	const struct gck_job *job = gck_state_job(&q->daemon->core.state, q->job);
	struct able **p = &questions;
	json_t *steps = json_array();

	while (*p != q)
		p = &(*p)->next;
	*p = q->next;
	ev_timer_stop(q->daemon->loop, &q->timer);
	for (const struct gck_step *s = job ? job->steps : NULL; s; s = s->next)
		if (is_asked(q, s))
			json_array_append_new(steps, step_verdict(&q->daemon->core, s));
	q->peer->uses--;
	gck_peer_end(q->peer, NULL, json_pack("{s:o}", "steps", steps));
	free(q);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	end(w->data);
}

static void ask_step(struct gck_daemon *d, struct gck_step *step)
{
	struct gck_live *live = step->live;

	live->able_id = ++d->able_id;
	for (uint32_t i = 0; i < live->nnodes; i++) {
		json_decref(live->nodes[i].items);
		live->nodes[i].items = NULL;
	}
	gck_live_send_all(&d->core, step, json_pack("{s:s, s:I}", "op", "able", "id",
						    (json_int_t)live->able_id));
}

void gck_able_ask(struct gck_peer *peer, struct gck_job *job, uint32_t step)
{
	struct able *q = calloc(1, sizeof *q);
	bool any = false;

	if (!q) {
		gck_peer_end(peer, "no memory for the question", NULL);
		return;
	}
	*q = (struct able){.next = questions, .peer = peer, .daemon = peer->daemon, .job = job->id,
			   .step = step};
	for (struct gck_step *s = job->steps; s; s = s->next)
		if (is_asked(q, s)) {
			ask_step(peer->daemon, s);
			any = true;
		}
	if (!any) {
		free(q);
		gck_peer_end(peer, "no such step runs with --gpu-ckpt", NULL);
		return;
	}
	questions = q;
	peer->uses++;
	ev_timer_init(&q->timer, on_timer, WAIT_S, 0.);
	q->timer.data = q;
	ev_timer_start(peer->daemon->loop, &q->timer);
	if (all_answered(q, job))
		end(q);
}

void gck_able_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body)
{
	(void)core;
	if (json_integer_value(json_object_get(body, "id")) != step->live->able_id || node->items)
		return;
	gck_node_set_items(node, json_object_get(body, "items"));
	for (struct able *q = questions, *next; q; q = next) {
		next = q->next;
		if (q->job == step->job->id && all_answered(q, step->job))
			end(q);
	}
}
