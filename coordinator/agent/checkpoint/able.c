/* SPDX-License-Identifier: Apache-2.0
 * `able`: the obstacles to a checkpoint on this node. */
#include "coordinator/agent/checkpoint/checkpoint.h"

#include <stdlib.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/shared_objects.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/upstream/upstream.h"
#include "coordinator/agent/worker/beside.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/scontrol.h"
#include "coordinator/agent/worker/store_job.h"
#include "shim/process/process.h"

#define ABLE_LIMIT_S 10.
#define SAY_LIMIT_S 2.     /* time limit for our threads in the ranks to report obstacles */
#define LOOK_S 0.02
#define ITEMS_MAX 256u /* that fit into one packet */

struct question {
	struct agent *agent;
	json_int_t id;
	ev_timer wait;            /* for the answers of our threads in the ranks */
	ev_tstamp began;
};

static json_t *item(const struct task *t, const char *object, const char *reason,
		    const char *remedy, bool refuse)
{
	return json_pack("{s:I, s:s, s:o, s:s, s:b}", "rank", (json_int_t)t->rank, "object", object,
			 "reason", packet_string(reason), "remedy", remedy, "refuse", refuse);
}

static void add_all(json_t *items, json_t *more, json_int_t rank)
{
	json_t *one;
	size_t i;

	json_array_foreach(more, i, one) {
		if (json_array_size(items) >= ITEMS_MAX)
			break;
		if (rank >= 0)
			json_object_set_new(one, "rank", json_integer(rank));
		json_array_append(items, one);
	}
	json_decref(more);
}

/* Add an obstacle that one of our threads in a rank reported. */
static void add_said(const struct task *t, const struct thread_link *l, const char *object,
		     const char *busy, json_t *items)
{
	if (l && !l->looked)
		json_array_append_new(items, item(t, object, busy, "ask again", true));
	else if (l)
		add_all(items, json_deep_copy(l->items), t->rank);
}

/* No obstacle: a checkpoint waits for what is queued (gpu_prepare). */
static void add_queue(const struct agent *a, const struct thread_link *l, json_t *items)
{
	char reason[160], remedy[160];

	if (!l->queued_ms)
		return;
	snprintf(reason, sizeof reason, "work that was queued %u ms ago is not done; how far the "
		 "queue reaches is not known", l->queued_ms);
	snprintf(remedy, sizeof remedy, "a checkpoint waits for it within timeout=%gs: give more "
		 "if it reaches further", a->step->options.timeout_ms / 1000.);
	json_array_append_new(items, item(l->task, "GPU queue", reason, remedy, false));
}

/* A rank that could not be looked at. */
static void add_failed(const struct task *t, const struct gck_error *why, json_t *items)
{
	if (!gck_process_ended(t->pid))
		json_array_append_new(items, item(t, "process", why->text, "see the reason", true));
}

static void look_at(const struct agent *a, const struct task *t, json_t *items)
{
	struct gck_error err = { 0 };
	json_t *found;

	if (t->ended)
		return;
	if (!t->link && gck_process_runs(t->pid, &err)) {
		add_failed(t, &err, items);
		return;
	}
	if (!t->link || t->link->waiting) {
		json_array_append_new(items, item(t, "preload",
			"it has no link to its agent: not started yet, set-uid, 32-bit, static "
			"without gpuckpt-parent, or with a seccomp filter for all threads",
			"leave LD_PRELOAD in place; for a static program GPUCKPT_PARENT, too, and "
			"in a --multi-prog file: env PROGRAM",
			true));
		return;
	}
	if (thread_link_in_init(t)) {
		json_array_append_new(items, item(t, "MPI", "it is in MPI_Init",
			"ask again when all ranks have left it; a checkpoint waits for that within "
			"timeout=", true));
		return;
	}
	found = t->number ? beside_able(t->pid, t->number, &t->link->hello, &a->step->options, &err)
			  : gck_process_able(t->pid, &t->link->hello, &a->step->options, &err);
	add_said(t, t->mpi, "MPI", "its MPI thread did not answer: it is inside a checkpoint",
		 items);
	for (const struct thread_link *l = t->cuda; l; l = l->next) {
		add_said(t, l, "CUDA", "its CUDA thread did not answer: it is inside a checkpoint",
			 items);
		add_queue(a, l, items);
	}
	if (found)
		add_all(items, found, t->rank);
	else
		add_failed(t, &err, items);
}

/* The images are elsewhere, so that nothing is refused. */
static void report_squatter(const json_t *found, json_t *items)
{
	const char *squatter = packet_text(found, "squatter", NULL);

	if (squatter)
		json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:b}", "object", "store",
				      "reason", squatter, "remedy",
				      "nothing depends on it: have it removed", "refuse", 0));
}

static void look_at_store(const struct agent *a, json_t *items)
{
	const struct tasks none = { 0 };
	const struct store_request r = { .step = a->step, .tasks = &none };
	struct gck_error err = { 0 };
	json_t *found = store_check(&r, &err);

	if (!found)
		json_array_append_new(items, json_pack("{s:s, s:o, s:s, s:b}", "object", "store",
				      "reason", packet_string(err.text), "remedy",
				      "see the reason", "refuse", 1));
	report_squatter(found, items);
	json_decref(found);
}

static bool is_suspended(const struct agent *a, json_t *items)
{
	char remedy[64];

	if (!tasks_stopped(&a->tasks) || !scontrol_suspended(a->step->job))
		return false;
	snprintf(remedy, sizeof remedy, "scontrol resume %u", a->step->job);
	json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:b}", "object", "job", "reason",
			      "it is suspended", "remedy", remedy, "refuse", 1));
	return true;
}

static json_t *look(const void *arg, struct gck_error *err)
{
	const struct agent *a = arg;
	json_t *items = json_array();

	(void)err;
	look_at_store(a, items);
	if (is_suspended(a, items))
		return items;
	for (size_t i = 0; i < a->tasks.n; i++)
		look_at(a, a->tasks.v[i], items);
	add_all(items, shared_objects_find(&a->tasks), -1);
	return items;
}

static void on_looked(void *data, const json_t *result, const struct gck_error *why)
{
	struct question *q = data;
	json_t *items = result ? json_incref((json_t *)result)
		: json_pack("[{s:s, s:o, s:s, s:b}]", "object", "node", "reason",
			    packet_string(why->text), "remedy", "try again", "refuse", 1);

	upstream_send(q->agent, json_pack("{s:s, s:I, s:o}", "op", "able", "id", q->id, "items",
					  items));
	free(q);
}

/* The job gets what the threads have reported by its start. */
static void on_wait(struct ev_loop *loop, ev_timer *w, int events)
{
	struct question *q = w->data;
	struct gck_error err = { 0 };

	(void)events;
	if (!thread_links_looked(q->agent) && ev_now(loop) - q->began < SAY_LIMIT_S)
		return;
	ev_timer_stop(loop, w);
	if (!job_start(loop, "able", look, q->agent, ABLE_LIMIT_S, on_looked, q, &err))
		on_looked(q, NULL, &err);
}

void able_start(struct agent *a, json_int_t id)
{
	struct question *q = malloc(sizeof *q);

	if (!q)
		return;
	q->agent = a;
	q->id = id;
	q->began = ev_now(a->loop);
	thread_links_look(a);
	ev_init(&q->wait, on_wait);
	q->wait.repeat = LOOK_S;
	q->wait.data = q;
	ev_timer_again(a->loop, &q->wait);
	on_wait(a->loop, &q->wait, 0);
}
