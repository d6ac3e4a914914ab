/* SPDX-License-Identifier: Apache-2.0
 * Messages of agents. A registration waits until Slurm has told the job's owner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/boot_clock.h"
#include "common/base/log.h"
#include "coordinator/core/actions/quiesce.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/agents/epoch.h"
#include "coordinator/core/agents/join.h"
#include "coordinator/core/agents/registration.h"
#include "coordinator/core/operations/rank_request.h"
#include "coordinator/core/retention/removal.h"
#include "coordinator/daemon/requests/requests.h"

/* ---- joining ------------------------------------------------------------------------------- */

/* code ESTALE: its job has a newer start, and it must end. */
static void refuse(struct gck_peer *peer, int code, const char *why)
{
	json_t *body = json_pack("{s:s, s:s, s:I, s:s}", "op", "welcome", "action", "refuse",
				 "epoch", (json_int_t)peer->daemon->core.state.epoch, "why", why);

	if (code == ESTALE)
		json_object_set_new(body, "superseded", json_true());
	gck_warn("an agent of user %u at %s is refused: %s", (unsigned)peer->uid, peer->host, why);
	gck_peer_send(peer, body);
	json_decref(body);
	json_decref(peer->agent->registration);
	peer->agent->registration = NULL;
}

static void join(struct gck_peer *peer, const json_t *job)
{
	struct gck_agent *agent = peer->agent;
	struct gck_error err = {0};

	agent->step =
		gck_join(&peer->daemon->core, agent, peer->uid, agent->registration, job, &err);
	if (!agent->step && gck_join_refuses(err.code)) {
		refuse(peer, err.code, err.text);
		return;
	}
	if (!agent->step && err.code) {
		gck_error_log("an agent at %s has to try again: %s", peer->host, err.text);
		gck_peer_refuse(peer, err.text);
		return;
	}
	json_decref(agent->registration);
	agent->registration = NULL;
	gck_grace_check(peer->daemon); /* last: a request that begins now may drop this agent */
}

static void on_job(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_peer *peer = arg;
	struct gck_daemon *d = peer->daemon;
	bool away = !answer->ok && answer->code != ENOENT;

	peer->uses--;
	gck_limits_asked(&d->limits, peer->uid);
	if (away && !d->slurm_away)
		gck_warn("agents wait, for Slurm does not say whose jobs they are of: %s",
			 answer->error);
	d->slurm_away = away;
	if (!peer->wire)
		return;
	/* The agent reconnects after a while, perhaps another one. */
	if (away || gck_peer_is_gone(peer)) {
		gck_peer_close(peer);
		return;
	}
	if (answer->ok)
		join(peer, answer->data);
	else
		refuse(peer, ENOENT, "Slurm has no such job");
	gck_peer_go_on(peer);
}

static void ask_slurm(struct gck_peer *peer)
{
	struct gck_daemon *d = peer->daemon;
	const json_t *job = json_object_get(peer->agent->registration, "job");

	if (!gck_limits_ask(&d->limits, peer->uid)) {
		gck_peer_close(peer);
		return;
	}
	peer->uses++;
	gck_slurm_ask(&d->slurm, json_pack("{s:s, s:O}", "op", "job", "job", job), on_job, peer);
}

static void take_registration(struct gck_peer *peer, const json_t *body)
{
	struct gck_daemon *d = peer->daemon;
	struct gck_agent *agent = peer->agent;

	if (agent && (agent->step || agent->registration)) {
		gck_peer_refuse(peer, "an agent registers once a connection");
		return;
	}
	gck_epoch_told(&d->core, body, gck_boot_ms() - d->started_ms, peer->host);
	if (!agent) {
		agent = calloc(1, sizeof *agent);
		if (!agent) {
			gck_peer_close(peer);
			return;
		}
		agent->peer = peer;
		peer->agent = agent;
		d->nagents++;
	}
	agent->registration = json_deep_copy(body);
	if (gck_registration_needs_slurm(&d->core, body, peer->uid) &&
	    json_is_integer(json_object_get(body, "job")))
		ask_slurm(peer);
	else
		join(peer, NULL);
}

/* ---- a member of its step ------------------------------------------------------------------ */

static void on_done(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		    const json_t *body)
{
	gck_answer(core, step, node, body);
}

static void on_exit_of_rank(struct gck_core *core, struct gck_step *step, struct gck_node *node,
			    const json_t *body)
{
	(void)node;
	gck_answer_exit(core, step, body);
}

static void on_bye(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		   const json_t *body)
{
	(void)body;
	gck_answer_bye(core, step, node);
}

static void on_tasks(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body)
{
	json_t *ranks = json_object_get(body, "ranks");

	(void)core;
	if (json_is_array(ranks))
		gck_node_set_ranks(node, ranks, step->ntasks);
}

static void on_error(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body)
{
	const char *text = json_string_value(json_object_get(body, "error"));

	(void)core;
	gck_warn("step %u.%u: the agent of node %s: %s", step->job->id, step->id, node->name,
		 text ? text : "an error without a text");
}

static const struct {
	const char *op;
	void (*take)(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body);
} messages[] = {
	{"done", on_done},
	{"progress", gck_answer_progress},
	{"ready", gck_quiesce_ready},
	{"exit", on_exit_of_rank},
	{"bye", on_bye},
	{"tasks", on_tasks},
	{"able", gck_able_answer},
	{"ask", gck_ask},
	{"swept", gck_swept_message},
	{"error", on_error},
};

void gck_agent_message(struct gck_peer *peer, const json_t *body)
{
	struct gck_core *core = &peer->daemon->core;
	const char *op = json_string_value(json_object_get(body, "op"));
	struct gck_step *step = peer->agent ? peer->agent->step : NULL;
	struct gck_node *node = step ? gck_live_node(step, peer->agent) : NULL;

	if (!strcmp(op, "register")) {
		take_registration(peer, body);
		return;
	}
	if (!node)
		return; /* not joined: its messages are ignored */
	if (!strcmp(op, "ask") && gck_grace_awaits(peer->daemon, step))
		return; /* the rank asks again when the other agents are here */
	for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
		if (!strcmp(messages[i].op, op)) {
			messages[i].take(core, step, node, body);
			return;
		}
	gck_peer_refuse(peer, "an agent's message with an unknown \"op\"");
}

void gck_agent_closed(struct gck_agent *agent)
{
	struct gck_daemon *d = agent->peer->daemon;

	agent->peer->agent = NULL;
	d->nagents--;
	if (agent->step && agent->step->live)
		gck_join_lost(&d->core, agent->step, agent);
	json_decref(agent->registration);
	free(agent);
}
