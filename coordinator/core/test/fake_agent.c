/* SPDX-License-Identifier: Apache-2.0
 * Agents of the fake world: connecting, registering, what they say. */
#include "coordinator/core/test/fake_agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/actions/quiesce.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/agents/epoch.h"
#include "coordinator/core/agents/join.h"
#include "coordinator/core/agents/registration.h"
#include "coordinator/core/operations/operation_members.h"
#include "coordinator/core/retention/removal.h"
#include "storage/base/hash.h"

/* ---- queues -------------------------------------------------------------------------------- */

static void fake_push(struct fake_queue *q, json_t *body)
{
	if (q->n == QUEUE) {
		json_decref(body);
		return;
	}
	q->messages[q->n++] = body;
}

json_t *fake_pop(struct fake_queue *q)
{
	json_t *body;

	if (!q->n)
		return NULL;
	body = q->messages[0];
	memmove(q->messages, q->messages + 1, --q->n * sizeof *q->messages);
	return body;
}

static void fake_clear(struct fake_queue *q)
{
	while (q->n)
		json_decref(fake_pop(q));
}

/* ---- life ---------------------------------------------------------------------------------- */

bool fake_has_rank(const struct gck_agent *a, unsigned rank)
{
	return rank < 2 ? a->node == 0 : a->node == rank - 1;
}

void fake_agent_begin(struct fake *f, unsigned step, unsigned node)
{
	struct gck_agent *a = &f->agents[step][node];

	memset(a, 0, sizeof *a);
	a->world = f;
	a->step = step;
	a->node = node;
	a->restarts = f->restarts;
	a->needs_hold = f->faults && f->random(f, 8) == 0;
	a->passing = f->faults && f->random(f, 8) == 0;
	a->pmix_fails = f->faults && f->random(f, 8) == 0;
	a->mpi = f->faults && f->random(f, 2) == 0;
	for (unsigned i = 0; i < TASKS; i++)
		a->exits[i] = GCK_NO_EXIT;
}

void fake_agent_cut(struct gck_agent *a)
{
	if (a->joined)
		a->until_ms = fake_boot_ms() + ISOLATED_MS;
	a->connected = a->joined = a->welcomed = false;
	fake_clear(&a->in);
	fake_clear(&a->out);
}

void fake_agent_end(struct gck_agent *a)
{
	json_decref(a->asked);
	a->asked = NULL;
	fake_agent_cut(a);
}

void fake_agent_is_dropped(struct gck_agent *a)
{
	fake_agent_cut(a);
}

/* A new checkpoint ends the one that the ranks are held for. */
static bool lets_go(const char *op)
{
	return !strcmp(op, "resume") || !strcmp(op, "abort") || !strcmp(op, "prepare");
}

static bool all_frozen(const struct fake *f, const struct gck_step *step)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct gck_agent *a = &f->agents[step->id][n];

		/* Another number: it gave up by itself. */
		if (a->state != F_OVER && !step->live->nodes[n].over &&
		    a->seq == step->live->checkpoint.seq && !a->frozen)
			return false;
	}
	return step->live->phase >= GCK_FROZEN && step->live->phase != GCK_ABORTING;
}

/* No step of an operation goes on before all are frozen, but for those that have failed. */
static void check_instant(struct fake *f, const struct gck_agent *a)
{
	const struct gck_step *step = gck_state_step(&f->core.state, JOB, a->step);
	const struct gck_operation *op = gck_operation_of(step);

	for (size_t i = 0; op && step->live->phase == GCK_RESUMING && i < op->nmembers; i++)
		if (op->members[i].outcome == GOING && !all_frozen(f, op->members[i].step))
			fake_wrong(f, "step %u goes on before step %u is frozen", a->step,
				   op->members[i].step->id);
}

void fake_agent_is_sent(struct gck_agent *a, const json_t *body)
{
	const char *op = json_string_value(json_object_get(body, "op"));

	if (a->world->dead)
		return;
	if (!strcmp(op, "resume"))
		check_instant(a->world, a);
	if (lets_go(op) && a->held && a->leaves && a->world->told)
		fake_wrong(a->world, "step %u: ranks of a requeued job go on", a->step);
	if (a->connected)
		fake_push(&a->in, json_deep_copy(body));
}

void fake_say(struct gck_agent *a, json_t *body)
{
	if (a->connected)
		fake_push(&a->out, body);
	else
		json_decref(body);
}

json_t *fake_exited(const struct gck_agent *a)
{
	json_t *out = json_array();

	for (unsigned i = 0; i < TASKS; i++)
		if (a->exits[i] != GCK_NO_EXIT)
			json_array_append_new(out, json_pack("{s:i, s:i}", "rank", (int)i, "status",
							     (int)a->exits[i]));
	return out;
}

/* The number of eight digits there (write_commit of fake_reactions.c). */
static json_int_t part_of(const json_t *hash, size_t at)
{
	char digits[9];

	snprintf(digits, sizeof digits, "%s", json_string_value(hash) + at);
	return (json_int_t)strtoul(digits, NULL, 16);
}

/* In their order, as an agent lists them. */
static json_t *commits(const struct fake *f, unsigned step)
{
	json_t *out = json_array(), *hash, *made_by = json_pack("{s:s}", "program", "p");
	char fingerprint[GCK_HASH_TEXT];
	const char *seq;

	gck_hash_json(made_by, fingerprint);
	json_decref(made_by);
	json_object_foreach(f->store[step], seq, hash)
		json_array_append_new(out, json_pack("{s:i, s:O, s:s, s:I, s:I}", "seq", atoi(seq),
						     "hash", hash, "fingerprint", fingerprint,
						     "from", part_of(hash, 16), "restarts",
						     part_of(hash, 24)));
	return out;
}

static const char *state_name(const struct gck_agent *a)
{
	if (a->state == F_RUNNING)
		return a->held ? "held" : "running";
	return a->state == F_RESTORING ? "restoring" : "new";
}

static json_t *local_ranks(const struct gck_agent *a)
{
	json_t *out = json_array();

	for (unsigned i = 0; i < TASKS; i++)
		if (fake_has_rank(a, i) && a->exits[i] == GCK_NO_EXIT)
			json_array_append_new(out, json_pack("{s:i, s:i}", "rank", (int)i, "pid",
							     100 + (int)i));
	return out;
}

static json_t *registration(const struct fake *f, const struct gck_agent *a)
{
	char name[16];
	json_t *r;

	snprintf(name, sizeof name, "n%u", a->node);
	r = json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:{s:s}, s:s, s:i, s:o}",
		      "op", "register", "job", JOB, "step", (int)a->step, "node", name, "node_id",
		      (int)a->node, "nodes", NODES, "ntasks", TASKS, "restarts", (int)a->restarts,
		      "options", f->options, "store", "file:/s", "fingerprint", "program",
		      f->program, "state", state_name(a), "seq",
		      (int)(a->state == F_RESTORING ? a->offered : a->seq), "exited",
		      fake_exited(a));
	json_object_set_new(r, "requeue", json_boolean(a->leaves));
	json_object_set_new(r, "script", json_boolean(a->node == SCRIPT_NODE));
	json_object_set_new(r, "epoch", json_integer(a->epoch));
	json_object_set_new(r, "epoch_ms", json_integer(fake_boot_ms() - a->obeyed_ms));
	json_object_set_new(r, "local_ranks", local_ranks(a));
	if (a->node == 0 && !f->unreadable)
		json_object_set_new(r, "commits", commits(f, a->step));
	return r;
}

void fake_connect(struct fake *f, struct gck_agent *a)
{
	if (a->connected || a->cut_off || a->state == F_OVER)
		return;
	a->connected = true;
	fake_say(a, registration(f, a));
}

void fake_disconnect(struct fake *f, struct gck_agent *a)
{
	struct gck_step *step = gck_state_step(&f->core.state, JOB, a->step);
	bool joined = a->joined;

	fake_agent_cut(a);
	if (joined && step && step->live)
		gck_join_lost(&f->core, step, a);
}

void fake_lets_go(struct gck_agent *a)
{
	a->held = a->frozen = a->written = a->quiesced = a->leaves = false;
	a->round = 0;
	a->seq = 0;
}

/* A restart may go back behind it. */
void fake_refuses(struct fake *f, unsigned step, uint32_t seq)
{
	if (seq > f->refused[step])
		f->refused[step] = seq;
}

void fake_rank_ends(struct fake *f, struct gck_agent *a, int32_t status)
{
	if (status)
		fake_refuses(f, a->step, a->from);
	for (unsigned i = 0; i < TASKS; i++) {
		if (!fake_has_rank(a, i) || a->exits[i] != GCK_NO_EXIT)
			continue;
		a->exits[i] = status;
		fake_say(a, json_pack("{s:s, s:i, s:i}", "op", "exit", "rank", (int)i, "status",
				      (int)status));
		return;
	}
}

/* Ranks that were emptied and not let go die with their restorers. */
void fake_agent_dies(struct fake *f, struct gck_agent *a)
{
	fake_disconnect(f, a);
	if (a->state == F_OVER)
		return;
	fake_lets_go(a);
	a->anew |= a->state == F_RESTORING;
	for (unsigned i = 0; i < TASKS && a->state == F_RESTORING && f->random(f, 2); i++)
		fake_rank_ends(f, a, SIGKILL);
	if (a->state == F_RESTORING)
		a->state = F_NEW;
	a->built = a->filed = a->offered = 0;
}

void fake_all_end(struct fake *f, struct gck_agent *a, int32_t status)
{
	for (unsigned i = 0; i < TASKS; i++)
		fake_rank_ends(f, a, status);
	fake_say(a, json_pack("{s:s}", "op", "bye"));
	fake_lets_go(a);
	a->state = F_OVER;
}

/* Its start is not the newest: it ends its ranks and registers again, to say so. */
static void fake_superseded(struct fake *f, struct gck_agent *a)
{
	bool ended = true;

	for (unsigned i = 0; i < TASKS; i++) {
		if (!fake_has_rank(a, i) || a->exits[i] != GCK_NO_EXIT)
			continue;
		a->exits[i] = SIGKILL;
		ended = false;
	}
	fake_lets_go(a);
	if (ended)
		a->state = F_OVER;
	else
		fake_say(a, registration(f, a));
}

/* ---- what agents say ----------------------------------------------------------------------- */

static void core_registers(struct fake *f, struct gck_agent *a, const json_t *body)
{
	json_t *job = gck_registration_needs_slurm(&f->core, body, OWNER) ? fake_job(f) : NULL;
	struct gck_error err = {0};

	gck_epoch_told(&f->core, body, fake_boot_ms() - f->began_ms, "n");
	a->joined = gck_join(&f->core, a, OWNER, body, job, &err) != NULL &&
		    a->connected; /* the core may drop it again at once */
	if (err.code && gck_join_refuses(err.code))
		a->refused = true;
	if (err.code == ESTALE)
		fake_superseded(f, a);
	else if (err.code)
		fake_agent_cut(a);
	json_decref(job);
	if (err.code == ENOSPC)
		fake_agent_cut(a); /* it is to try again */
}

bool fake_core_takes(struct fake *f, struct gck_agent *a)
{
	json_t *body = fake_pop(&a->out);
	struct gck_step *step;
	struct gck_node *node;
	const char *op;

	if (!body)
		return false;
	op = json_string_value(json_object_get(body, "op"));
	if (!strcmp(op, "register")) {
		core_registers(f, a, body);
		json_decref(body);
		return true;
	}
	step = gck_state_step(&f->core.state, JOB, a->step);
	node = a->joined && step ? gck_live_node(step, a) : NULL;
	if (node && !strcmp(op, "ready"))
		gck_quiesce_ready(&f->core, step, node, body);
	else if (node && !strcmp(op, "done"))
		gck_answer(&f->core, step, node, body);
	else if (node && !strcmp(op, "progress"))
		gck_answer_progress(&f->core, step, node, body);
	else if (node && !strcmp(op, "swept"))
		gck_swept_message(&f->core, step, node, body);
	else if (node && !strcmp(op, "exit"))
		gck_answer_exit(&f->core, step, body);
	else if (node && !strcmp(op, "bye"))
		gck_answer_bye(&f->core, step, node);
	json_decref(body);
	return true;
}
