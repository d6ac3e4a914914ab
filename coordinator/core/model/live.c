/* SPDX-License-Identifier: Apache-2.0
 * A live step: its nodes, and messages to them. */
#include "coordinator/core/model/live.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int gck_live_begin(struct gck_step *step, struct gck_error *err)
{
	struct gck_live *live = calloc(1, sizeof *live);
	struct gck_node *nodes = calloc(step->nodes, sizeof *nodes);

	if (!live || !nodes) {
		free(live);
		free(nodes);
		return gck_fail(err, ENOMEM, "no memory for step %u.%u", step->job->id, step->id);
	}
	live->nodes = nodes;
	live->nnodes = step->nodes;
	for (uint32_t i = 0; step->over && i < step->nodes; i++)
		nodes[i].known = nodes[i].over = step->over[i];
	gck_options_init(&live->options);
	if (gck_options_parse(&live->options, step->options, err)) {
		free(live);
		free(nodes);
		return -1;
	}
	gck_live_free(step);
	step->live = live;
	return 0;
}

static void node_clear(struct gck_node *node)
{
	json_decref(node->commits);
	json_decref(node->ranks);
	json_decref(node->items);
	free(node->store_error);
	free(node->words);
}

void gck_checkpoint_clear(struct gck_checkpoint *c)
{
	json_decref(c->manifests);
	json_decref(c->common);
	memset(c, 0, sizeof *c);
}

void gck_live_free(struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (!live)
		return;
	for (uint32_t i = 0; i < live->nnodes; i++)
		node_clear(&live->nodes[i]);
	gck_checkpoint_clear(&live->checkpoint);
	free(live->nodes);
	free(live);
	step->live = NULL;
}

struct gck_node *gck_live_node(struct gck_step *step, const struct gck_agent *agent)
{
	for (uint32_t i = 0; step->live && i < step->live->nnodes; i++)
		if (step->live->nodes[i].agent == agent)
			return &step->live->nodes[i];
	return NULL;
}

void gck_node_left(struct gck_node *node, int64_t now_ms)
{
	node->agent = NULL;
	node->left_ms = now_ms;
}

unsigned gck_ms(unsigned seconds)
{
	return seconds > UINT32_MAX / 1000 ? UINT32_MAX : seconds * 1000;
}

/* An agent cannot make us keep more than its step has tasks. */
void gck_node_set_ranks(struct gck_node *node, const json_t *ranks, uint32_t ntasks)
{
	size_t most = ntasks < GCK_MAX_NODE_TASKS ? ntasks : GCK_MAX_NODE_TASKS, i;
	json_t *kept = json_is_array(ranks) ? json_array() : NULL, *one;
	json_int_t rank, pid;

	json_array_foreach(ranks, i, one) {
		if (json_array_size(kept) == most)
			break;
		if (json_unpack(one, "{s:I, s:I}", "rank", &rank, "pid", &pid) == 0)
			json_array_append_new(kept,
					      json_pack("{s:I, s:I}", "rank", rank, "pid", pid));
	}
	json_decref(node->ranks);
	node->ranks = kept;
}

static json_t *copy_item(const json_t *said)
{
	static const char *const names[] = {"rank", "object", "reason", "remedy", "refuse"};
	json_t *item = json_object();

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		json_t *value = json_object_get(said, names[i]);

		if (value && !json_is_object(value) && !json_is_array(value))
			json_object_set(item, names[i], value);
	}
	return item;
}

void gck_node_set_items(struct gck_node *node, const json_t *items)
{
	json_t *kept = json_array();

	for (size_t i = 0; i < json_array_size(items) && i < GCK_MAX_NODE_TASKS; i++)
		json_array_append_new(kept, copy_item(json_array_get(items, i)));
	json_decref(node->items);
	node->items = kept;
}

void gck_node_clear_words(struct gck_node *node)
{
	free(node->words);
	node->words = NULL;
	node->nwords = 0;
}

bool gck_node_runs(const struct gck_node *node)
{
	return node->state == GCK_AGENT_RUNNING || node->state == GCK_AGENT_HELD;
}

bool gck_live_all_known(const struct gck_live *live)
{
	return !gck_live_missing(live);
}

bool gck_live_all_over(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (!live->nodes[i].over)
			return false;
	return true;
}

bool gck_live_any_here(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (live->nodes[i].agent)
			return true;
	return false;
}

static bool is_silent(const struct gck_node *node)
{
	return !node->over && !node->answered;
}

bool gck_live_all_answered(const struct gck_live *live, bool lost_counts)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (is_silent(&live->nodes[i]) && (live->nodes[i].agent || !lost_counts))
			return false;
	return true;
}

const struct gck_node *gck_live_missing(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (!live->nodes[i].over && !live->nodes[i].agent)
			return &live->nodes[i];
	return NULL;
}

const struct gck_node *gck_live_silent(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (is_silent(&live->nodes[i]))
			return &live->nodes[i];
	return NULL;
}

static bool uploads(const struct gck_node *node)
{
	return node->over || node->answered || (node->staged && node->done >= node->all);
}

/* A part of the nodes says nothing about the whole restart. */
static bool sizes_known(const struct gck_live *live)
{
	for (uint32_t i = 0; live->phase == GCK_BUILDING && i < live->nnodes; i++)
		if (is_silent(&live->nodes[i]) && !live->nodes[i].all)
			return false;
	return true;
}

const char *gck_live_progress(const struct gck_live *live, uint64_t *done, uint64_t *all)
{
	bool stages = *live->options.stage && (live->phase == GCK_WRITING ||
					       live->phase == GCK_HELD_WRITING);
	bool upload = stages;

	*done = *all = 0;
	for (uint32_t i = 0; i < live->nnodes; i++)
		upload = upload && uploads(&live->nodes[i]);
	for (uint32_t i = 0; i < live->nnodes && sizes_known(live); i++) {
		*done += upload ? live->nodes[i].sent : live->nodes[i].done;
		*all += upload ? live->nodes[i].staged : live->nodes[i].all;
	}
	return upload ? "uploading" : stages ? "staging" : gck_phase_name(live->phase);
}

void gck_live_send(struct gck_core *core, struct gck_node *node, json_t *body)
{
	if (node->agent && body)
		core->world->send(node->agent, body);
	json_decref(body);
}

void gck_live_send_all(struct gck_core *core, struct gck_step *step, json_t *body)
{
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		gck_live_send(core, &step->live->nodes[i], json_incref(body));
	json_decref(body);
}

void gck_live_ask_all(struct gck_core *core, struct gck_step *step, json_t *body)
{
	for (uint32_t i = 0; i < step->live->nnodes; i++) {
		step->live->nodes[i].answered = false;
		step->live->nodes[i].done = step->live->nodes[i].all = 0;
		step->live->nodes[i].sent = step->live->nodes[i].staged = 0;
	}
	gck_live_send_all(core, step, body);
}

void gck_live_say(struct gck_core *core, const struct gck_step *step, const char *fmt, ...)
{
	const struct gck_live *live = step->live;
	char text[960];
	uint32_t node = 0;
	va_list ap;

	if (live->options.quiet)
		return;
	while (node + 1 < live->nnodes && !live->nodes[node].agent)
		node++;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	gck_live_send(core, &live->nodes[node],
		      json_pack("{s:s, s:s}", "op", "say", "text", text));
}

json_t *gck_live_order(const char *op, const struct gck_step *step)
{
	return json_pack("{s:s, s:I}", "op", op, "seq", (json_int_t)step->live->checkpoint.seq);
}

void gck_live_phase_timer(struct gck_core *core, struct gck_step *step, unsigned ms)
{
	core->world->timer(core, step, GCK_TIMER_PHASE, ms);
}

void gck_live_fail(struct gck_step *step, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	gck_vfail(&step->live->error, code, fmt, ap);
	va_end(ap);
}
