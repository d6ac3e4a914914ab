/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's messages, by their "op". */
#include <string.h>

#include "common/base/boot_clock.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/checkpoint/checkpoint.h"
#include "coordinator/agent/checkpoint/rank_request.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/node/incarnation.h"
#include "coordinator/agent/node/node.h"
#include "coordinator/agent/node/node_isolation.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/worker/proxy.h"
#include "coordinator/agent/worker/store_job.h"

static void on_connected(struct agent *a)
{
	proxy_connection(true);
	if (a->transaction)
		transaction_heard(a->transaction);
	gate_heard(a);
	isolation_heard(a->isolation);
}

static void on_lost(struct agent *a)
{
	proxy_connection(false);
	gate_unheard(a);
	isolation_unheard(a->isolation);
}

/* ---- welcome ------------------------------------------------------------------------------- */

static int welcome_open(struct agent *a, const json_t *body)
{
	(void)body;
	gate_open(a);
	return 0;
}

/* Ranks that run cannot be restored. The coordinator knows from `register` that they run, so it
 * is in error. */
static int welcome_restore(struct agent *a, const json_t *body)
{
	if (a->gate == GATE_OPEN) {
		gck_warn("the coordinator wants to restore ranks that run: ignored");
		return 0;
	}
	return restart_offered(a, body);
}

static int welcome_finished(struct agent *a, const json_t *body)
{
	if (a->gate != GATE_OPEN)
		gate_finished(a, json_object_get(body, "statuses"),
			       packet_text(body, "why", "this step had finished: it is not run "
					   "again (skip-done=no runs it)"));
	return 0;
}

static int welcome_wait(struct agent *a, const json_t *body)
{
	(void)a;
	(void)body;
	return 0;
}

/* Ranks that run are not harmed. The user is told once, not with every connection, that there
 * will be no checkpoints. */
static int welcome_refuse(struct agent *a, const json_t *body)
{
	const char *why = packet_text(body, "why", "the coordinator refuses it");

	if (a->gate != GATE_OPEN)
		gate_refuse(a, why);
	else if (!a->refused)
		say_to_user(&a->tasks, "step %u.%u runs without checkpoints: %s", a->step->job,
			    a->step->step, why);
	a->refused = true;
	return 0;
}

typedef int handler(struct agent *a, const json_t *body);

static const struct {
	const char *action;
	handler *act;
} actions[] = {
	{ "cold", welcome_open },
	{ "run", welcome_open },
	{ "restore", welcome_restore },
	{ "finished", welcome_finished },
	{ "wait", welcome_wait },
	{ "refuse", welcome_refuse },
};

/* Takes Slurm's count. The environment's may be lost: with a lower count this agent would pass
 * for one of an earlier start. Or it may be another job's: with a higher count it would pass for
 * one of the next start. */
static void take_restarts(struct agent *a, const json_t *body)
{
	json_int_t restarts = packet_int(body, "restarts", -1);
	struct lasting *l = a->lasting;

	if ((!l->counted || restarts > l->restarts) && restarts >= 0 && restarts <= UINT32_MAX)
		l->restarts = (uint32_t)restarts;
	l->counted |= restarts >= 0;
}

/* Whose count is only the environment's may be of the newest start after all. */
static bool is_superseded(const struct agent *a, const json_t *body)
{
	return a->lasting->counted && json_is_true(json_object_get(body, "superseded"));
}

/* A coordinator with a lower epoch than another's is stale and not obeyed. */
static int on_welcome(struct agent *a, const json_t *body)
{
	const char *action = packet_text(body, "action", "");
	json_int_t epoch = packet_int(body, "epoch", 0);

	if (epoch < 0 || (uint64_t)epoch < a->lasting->epoch) {
		gck_warn("a coordinator of epoch %lld is refused: one of epoch %llu was here",
			 (long long)epoch, (unsigned long long)a->lasting->epoch);
		return -1;
	}
	a->lasting->epoch = (uint64_t)epoch;
	a->lasting->welcomed_ms = gck_boot_ms();
	take_restarts(a, body);
	isolation_term(a->isolation,
		       packet_int(body, "slurmd_timeout", a->lasting->slurmd_timeout_s));
	upstream_welcome(a->upstream);
	if (is_superseded(a, body)) { /* no word for this start: it is as if there were none */
		incarnation_end(a, packet_text(body, "why", "its job has a newer start"));
		return 0;
	}
	on_connected(a);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (!strcmp(action, actions[i].action))
			return actions[i].act(a, body);
	gck_warn("the coordinator's welcome has an unknown action \"%s\"", action);
	return -1;
}

/* ---- commands ------------------------------------------------------------------------------ */

static int on_checkpoint(struct agent *a, const json_t *body)
{
	checkpoint_command(a, packet_text(body, "op", ""), body);
	return 0;
}

static int on_restart(struct agent *a, const json_t *body)
{
	restart_command(a, packet_text(body, "op", ""), body);
	return 0;
}

static int on_able(struct agent *a, const json_t *body)
{
	able_start(a, packet_int(body, "id", 0));
	return 0;
}

/* Held ranks are committed. They get SIGKILL: what they did at SIGTERM would not be in the
 * image, and they cannot take it while held. Others get SIGTERM and may clean up. */
static int on_terminate(struct agent *a, const json_t *body)
{
	bool held = a->transaction && transaction_held(a->transaction);

	gate_end_ranks(a, packet_text(body, "why", "the coordinator wants it so"), held);
	return 0;
}

static int on_signed(struct agent *a, const json_t *body)
{
	(void)a;
	proxy_answer(body);
	return 0;
}

static int on_asked(struct agent *a, const json_t *body)
{
	rank_request_answered(a, body);
	return 0;
}

static int on_sweep(struct agent *a, const json_t *body)
{
	commit_sweep(a, body);
	return 0;
}

static int on_say(struct agent *a, const json_t *body)
{
	say_to_user(&a->tasks, "%s", packet_text(body, "text", ""));
	return 0;
}

static int on_error(struct agent *a, const json_t *body)
{
	(void)a;
	gck_warn("the coordinator says: %s", packet_text(body, "error", "error"));
	return 0;
}

static const struct {
	const char *op;
	handler *act;
} ops[] = {
	{ "welcome", on_welcome },
	{ "able", on_able },
	{ "prepare", on_checkpoint },
	{ "quiesce", on_checkpoint },
	{ "go", on_checkpoint },
	{ "freeze", on_checkpoint },
	{ "resume", on_checkpoint },
	{ "write", on_checkpoint },
	{ "hold", on_checkpoint },
	{ "commit", on_checkpoint },
	{ "committed", on_checkpoint },
	{ "sweep", on_sweep },
	{ "abort", on_checkpoint },
	{ "build", on_restart },
	{ "files", on_restart },
	{ "run", on_restart },
	{ "fallback", on_restart },
	{ "terminate", on_terminate },
	{ "signed", on_signed },
	{ "unwrapped", on_signed },
	{ "asked", on_asked },
	{ "say", on_say },
	{ "error", on_error },
};

/* Before its welcome, nothing else is taken from a coordinator. */
static int take(struct agent *a, const json_t *body)
{
	const char *op = packet_text(body, "op", "");

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		if (strcmp(op, ops[i].op))
			continue;
		if (ops[i].act != on_welcome && ops[i].act != on_error &&
		    !upstream_welcomed(a->upstream))
			return -1;
		return ops[i].act(a, body);
	}
	upstream_send(a, json_pack("{s:s, s:o}", "op", "error", "error",
				   json_sprintf("unknown op \"%s\"", op)));
	return 0;
}

/* ---- register ------------------------------------------------------------------------------ */

#define LIST_LIMIT_S 20.        /* ranks wait for this */
#define LIST_RUNNING_LIMIT_S 4. /* ranks run, or are held for a checkpoint */

static struct job *register_list(struct agent *a, job_done *done, void *data, struct gck_error *err)
{
	const struct store_request r = { .step = a->step };

	return job_start(a->loop, "listing the commits", store_list, &r, a->gate == GATE_OPEN ?
			 LIST_RUNNING_LIMIT_S : LIST_LIMIT_S, done, data, err);
}

static const char *state_of(const struct agent *a, uint32_t *seq)
{
	*seq = 0;
	if (a->restart && restart_building(a->restart, seq))
		return "restoring";
	if (a->gate != GATE_OPEN)
		return "new";
	if (a->transaction)
		*seq = transaction_seq(a->transaction);
	return a->transaction && transaction_held(a->transaction) ? "held" : "running";
}

static json_t *ended(const struct tasks *t)
{
	json_t *all = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->ended)
			json_array_append_new(all, json_pack("{s:I, s:i}", "rank",
				(json_int_t)t->v[i]->rank, "status", t->v[i]->status));
	return all;
}

static json_t *identity(const struct step *s, uint32_t restarts)
{
	return json_pack("{s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:o}", "op",
			 "register", "job", (json_int_t)s->job, "step", (json_int_t)s->step,
			 "node", packet_string(s->node), "node_id", (json_int_t)s->node_id,
			 "nodes", (json_int_t)s->nnodes, "ntasks", (json_int_t)s->ntasks,
			 "restarts", (json_int_t)restarts, "options", s->options_text, "store",
			 s->options.store, "fingerprint", step_fingerprint(s));
}

static json_t *register_body(const struct agent *a, const json_t *commits,
			     const struct gck_error *why)
{
	json_t *body = identity(a->step, a->lasting->restarts);
	const char *state;
	uint32_t seq;

	if (!body)
		return NULL;
	state = state_of(a, &seq);
	json_object_set_new(body, "state", json_string(state));
	json_object_set_new(body, "seq", json_integer(seq));
	json_object_set_new(body, "requeue",
			    json_boolean(a->transaction && transaction_leaves(a->transaction)));
	json_object_set_new(body, "script", json_boolean(incarnation_has_script(a)));
	json_object_set_new(body, "epoch", json_integer((json_int_t)a->lasting->epoch));
	if (a->lasting->epoch)
		json_object_set_new(body, "epoch_ms",
				    json_integer(gck_boot_ms() - a->lasting->welcomed_ms));
	json_object_set_new(body, "local_ranks", tasks_json(&a->tasks));
	json_object_set_new(body, "exited", ended(&a->tasks));
	json_object_set_new(body, "commits",
			    commits ? json_incref((json_t *)commits) : json_null());
	if (!commits && why->code)
		json_object_set_new(body, "store_error", packet_string(why->text));
	return body;
}

const struct upstream_ops dispatch = { register_list, register_body, take, on_lost };
