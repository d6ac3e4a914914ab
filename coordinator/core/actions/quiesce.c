/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's side of a quiesce of MPI, in rounds. */
#include "coordinator/core/actions/quiesce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "common/wire/wire.h"
#include "coordinator/core/actions/actions.h"
#include "coordinator/core/actions/checkpoint.h"
#include "coordinator/core/operations/operation.h"

#define PIECE (384u << 10)    /* bytes of words in one message */
#define MORE_MS 4000          /* added to the agents' limit: the agent at fault reports first */

/* The share of hold= that the quiesce may take. */
static unsigned limit_ms(const struct gck_options *o)
{
	return o->hold_ms / 4 * 3;
}

/* Does the step have ranks with MPI, by its nodes' answers to `prepare`? */
static bool is_needed(const struct gck_live *live)
{
	for (uint32_t i = 0; i < live->nnodes; i++)
		if (!live->nodes[i].over && live->nodes[i].mpi)
			return true;
	return false;
}

void gck_quiesce_note(struct gck_node *node, const json_t *data)
{
	json_int_t mpi = json_integer_value(json_object_get(data, "mpi"));

	node->mpi = mpi > 0 && mpi <= UINT32_MAX ? (uint32_t)mpi : 0;
	node->pmix = json_is_true(json_object_get(data, "pmix"));
}

/* PMIx's fence spans all ranks of the step, so all must take part. */
static bool through_pmix(const struct gck_step *step)
{
	const struct gck_live *live = step->live;
	uint64_t n = 0;

	for (uint32_t i = 0; i < live->nnodes; i++) {
		if (live->nodes[i].over || !live->nodes[i].pmix)
			return false;
		n += live->nodes[i].mpi;
	}
	return n == step->ntasks;
}

void gck_act_quiesce(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	if (gck_checkpoint_ready(step, &live->error)) {
		gck_raise(core, step, GCK_FAILED);
		return;
	}
	if (!is_needed(live)) {
		gck_live_phase_timer(core, step, live->options.timeout_ms);
		gck_raise(core, step, GCK_ALL);
		return;
	}
	for (uint32_t i = 0; i < live->nnodes; i++) {
		gck_node_clear_words(&live->nodes[i]);
		live->nodes[i].round = 0;
	}
	live->checkpoint.round = 1;
	live->checkpoint.quiescing_ms = core->world->now_ms();
	live->checkpoint.via = through_pmix(step) ? "pmix" : "coordinator";
	gck_live_phase_timer(core, step, live->options.hold_ms + MORE_MS);
	gck_live_ask_all(core, step, json_pack("{s:s, s:I, s:s, s:I}", "op", "quiesce", "seq",
		(json_int_t)live->checkpoint.seq, "via", live->checkpoint.via, "limit_ms",
		(json_int_t)limit_ms(&live->options)));
}

void gck_act_quiesced(struct gck_core *core, struct gck_step *step)
{
	struct gck_checkpoint *c = &step->live->checkpoint;

	if (c->quiescing_ms)
		c->quiesced_ms = core->world->now_ms();
	gck_operation_meet(core, step);
}

/* ---- a round -------------------------------------------------------------------------------- */

static bool takes_part(const struct gck_node *node)
{
	return node->mpi && !node->answered && !node->over;
}

static int send_piece(struct gck_core *core, struct gck_step *step, const unsigned char *words,
		      size_t total, size_t at)
{
	size_t n = total - at < PIECE ? total - at : PIECE;
	char *text = gck_base64_text(words + at, n);
	json_t *body;

	if (!text)
		return -1;
	body = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "op", "go", "seq",
			 (json_int_t)step->live->checkpoint.seq, "round",
			 (json_int_t)step->live->checkpoint.round, "at", (json_int_t)at, "total",
			 (json_int_t)total, "data", text);
	free(text);
	for (uint32_t i = 0; i < step->live->nnodes; i++)
		if (takes_part(&step->live->nodes[i]))
			gck_live_send(core, &step->live->nodes[i], json_incref(body));
	json_decref(body);
	return 0;
}

static unsigned char *join_words(struct gck_live *live, size_t *total)
{
	unsigned char *all;

	*total = 0;
	for (uint32_t i = 0; i < live->nnodes; i++)
		*total += live->nodes[i].nwords;
	all = malloc(*total + 1);
	for (size_t i = 0, at = 0; all && i < live->nnodes; i++) {
		memcpy(all + at, live->nodes[i].words ? (void *)live->nodes[i].words : "",
		       live->nodes[i].nwords);
		at += live->nodes[i].nwords;
		gck_node_clear_words(&live->nodes[i]);
	}
	return all;
}

static void go(struct gck_core *core, struct gck_step *step)
{
	size_t total, at = 0;
	unsigned char *all = join_words(step->live, &total);
	int rc = all ? 0 : -1;

	for (; rc == 0 && (at == 0 || at < total); at += PIECE)
		rc = send_piece(core, step, all, total, at);
	free(all);
	step->live->checkpoint.round++;
	if (rc == 0)
		return;
	gck_live_fail(step, ENOMEM, "no memory for the ranks' words");
	gck_raise(core, step, GCK_FAILED);
}

void gck_quiesce_check(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;
	bool any = false;

	for (uint32_t i = 0; i < live->nnodes; i++) {
		if (!takes_part(&live->nodes[i]))
			continue;
		if (live->nodes[i].round != live->checkpoint.round)
			return;
		any = true;
	}
	if (any)
		go(core, step);
}

static size_t all_words(const struct gck_live *live)
{
	size_t n = 0;

	for (uint32_t i = 0; i < live->nnodes; i++)
		n += live->nodes[i].nwords;
	return n;
}

static int append(const struct gck_live *live, struct gck_node *node, const json_t *data,
		  struct gck_error *err)
{
	const char *text = json_string_value(data);
	size_t length = text ? strlen(text) : 0;
	unsigned char *v;
	long n;

	if (all_words(live) + length / 4 * 3 > GCK_WIRE_MAX_BULK)
		return gck_fail(err, EMSGSIZE, "its ranks' words are too many for the coordinator: "
				"start the step with --mpi=pmix");
	v = realloc(node->words, node->nwords + GCK_BASE64_BYTES_MAX(length) + 1);
	if (!v)
		return gck_fail(err, ENOMEM, "no memory for the ranks' words");
	node->words = v;
	n = text ? gck_base64_bytes(text, length, v + node->nwords) : -1;
	if (n < 0)
		return gck_fail(err, EPROTO, "its ranks' words make no sense");
	node->nwords += (size_t)n;
	return 0;
}

static int take_words(const struct gck_live *live, struct gck_node *node, const json_t *body,
		      struct gck_error *err)
{
	json_int_t at = json_integer_value(json_object_get(body, "at"));
	json_int_t total = json_integer_value(json_object_get(body, "total"));

	if (at < 0 || (size_t)at != node->nwords ||
	    json_integer_value(json_object_get(body, "round")) != live->checkpoint.round)
		return gck_fail(err, EPROTO, "its ranks' words come out of turn");
	if (append(live, node, json_object_get(body, "data"), err))
		return -1;
	if (node->nwords == (size_t)total)
		node->round = live->checkpoint.round;
	return 0;
}

void gck_quiesce_ready(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		       const json_t *body)
{
	struct gck_live *live = step->live;
	struct gck_error err = {0};

	if (live->phase != GCK_QUIESCING || !takes_part(node) ||
	    json_integer_value(json_object_get(body, "seq")) != live->checkpoint.seq)
		return;
	if (take_words(live, node, body, &err)) {
		gck_live_fail(step, err.code, "node %s, quiesce: %s", node->name, err.text);
		gck_raise(core, step, GCK_FAILED);
		return;
	}
	gck_quiesce_check(core, step);
}
