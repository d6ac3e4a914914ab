/* SPDX-License-Identifier: Apache-2.0
 * `register`: who this agent is and the state of its ranks. */
#include "coordinator/agent/node/node.h"

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/restart/restart.h"
#include "coordinator/agent/worker/store_job.h"

#define LIST_LIMIT_S 20.        /* ranks wait for this */
#define LIST_RUNNING_LIMIT_S 4. /* ranks run, or are held for a checkpoint */

struct job *register_list(struct agent *a, job_done *done, void *data, struct gck_error *err)
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

json_t *register_body(const struct agent *a, const json_t *commits, const struct gck_error *why)
{
	json_t *body = identity(a->step, a->lasting->restarts);
	const char *state;
	uint32_t seq;

	if (!body)
		return NULL;
	state = state_of(a, &seq);
	json_object_set_new(body, "state", json_string(state));
	json_object_set_new(body, "seq", json_integer(seq));
	json_object_set_new(body, "epoch", json_integer((json_int_t)a->lasting->epoch));
	json_object_set_new(body, "local_ranks", tasks_json(&a->tasks));
	json_object_set_new(body, "exited", ended(&a->tasks));
	json_object_set_new(body, "commits",
			    commits ? json_incref((json_t *)commits) : json_null());
	if (!commits && why->code)
		json_object_set_new(body, "store_error", packet_string(why->text));
	return body;
}
