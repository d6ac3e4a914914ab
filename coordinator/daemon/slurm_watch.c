/* SPDX-License-Identifier: Apache-2.0
 * The poll of Slurm: nodes that jobs must leave, and jobs that are over. One query for all, every
 * NodePoll seconds while steps are alive.
 *
 * A batch job on such a node is checkpointed and requeued; a job that cannot be requeued is
 * checkpointed once. Failures are retried at growing intervals while the node must be left. A
 * maintenance reservation counts from LEAD_S seconds before it starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/actions/ending.h"
#include "coordinator/core/agents/join.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/retention/expire.h"
#include "coordinator/daemon/daemon.h"
#include "coordinator/daemon/objects/objects.h"

#define LEAD_S 120
#define JOBS_EVERY 12     /* polls */
#define FIRST_RETRY_S 10u
#define MAX_DOUBLINGS 6u
#define CONF_RETRY_S 10.0
#define ONCE INT64_MAX    /* the next try of a job that is only checkpointed */
#define LEFT "its node is to be left"

/* ---- leaving a node ------------------------------------------------------------------------ */

static void on_event(void *arg, const char *text, const json_t *data)
{
	(void)arg;
	(void)text;
	(void)data;
}

/* The job stays for this reason. It is told at this poll or the next. */
static void stays(struct gck_job *job, const char *reason)
{
	if (job->stays && !strcmp(job->stays, reason))
		return;
	free(job->stays);
	job->stays = strdup(reason);
	job->stays_told = false;
}

static void on_end(void *arg, const char *error, const json_t *steps)
{
	struct gck_job *job = arg;

	(void)steps;
	if (error) {
		gck_error_log("job %u could not be taken off its node: %s", job->id, error);
		stays(job, error);
		return;
	}
	job->drain_next_ms = ONCE;
	if (job->batch)
		return;
	gck_warn("job %u cannot be requeued: it was only checkpointed", job->id);
	stays(job, "it cannot be requeued, so it was only checkpointed");
}

/* In the output of one of its steps. */
static void tell(struct gck_daemon *d, struct gck_job *job, const char *why)
{
	const struct gck_step *step = job->steps;

	while (step && !step->live)
		step = step->next;
	if (!job->stays || job->stays_told || !step)
		return;
	job->stays_told = true;
	gck_live_say(&d->core, step, "job %u stays on its nodes, which it must leave (%s): %s%s",
		     job->id, why, job->stays,
		     job->drain_next_ms == ONCE ? "" : "; this is tried again");
}

static void leave(struct gck_daemon *d, struct gck_job *job, const char *why)
{
	struct gck_waiter waiter = {.arg = job, .wait = true, .event = on_event, .end = on_end};
	int64_t now = d->core.world->now_ms();
	struct gck_error err = {0};
	unsigned n = job->drain_tries < MAX_DOUBLINGS ? job->drain_tries : MAX_DOUBLINGS;

	if (now < job->drain_next_ms || gck_operation_requeues(&d->core, job->id))
		return;
	gck_info("job %u leaves its node: %s", job->id, why);
	job->drain_tries++;
	job->drain_next_ms = now + 1000 * (int64_t)(FIRST_RETRY_S << n);
	if (gck_operation_begin(&d->core, job->batch ? GCK_REQUEUE : GCK_CREATE, job->id,
				GCK_EVERY_STEP, why, &waiter, &err)) {
		gck_warn("job %u cannot leave its node now: %s", job->id, err.text);
		stays(job, err.text);
	}
}

static void forget(struct gck_job *job)
{
	job->drain_next_ms = job->drain_tries = 0;
	free(job->stays);
	job->stays = NULL;
}

static bool is_leaving(const json_t *leaving, uint32_t job)
{
	json_t *one;
	size_t i;

	json_array_foreach(leaving, i, one)
		if (json_integer_value(json_object_get(one, "job")) == job)
			return true;
	return false;
}

static void take_leaving(struct gck_daemon *d, const json_t *leaving)
{
	json_t *one;
	size_t i;

	json_array_foreach(leaving, i, one) {
		struct gck_job *job = gck_state_job(&d->core.state, (uint32_t)json_integer_value(
						    json_object_get(one, "job")));
		const char *why = json_string_value(json_object_get(one, "why"));

		if (!job)
			continue;
		leave(d, job, why ? why : LEFT);
		tell(d, job, why ? why : LEFT);
	}
	for (struct gck_job *job = d->core.state.jobs; job; job = job->next)
		if (!is_leaving(leaving, job->id))
			forget(job);
}

/* ---- jobs that are over -------------------------------------------------------------------- */

static void take_gone(struct gck_daemon *d, const json_t *gone)
{
	json_t *id;
	size_t i;

	json_array_foreach(gone, i, id) {
		struct gck_job *job = gck_state_job(&d->core.state,
						    (uint32_t)json_integer_value(id));

		if (!job || job->gone)
			continue;
		gck_info("job %u: Slurm no longer knows it", job->id);
		for (struct gck_step *step = job->steps; step; step = step->next)
			gck_join_end(&d->core, step);
		gck_core_note(&d->core, json_pack("{s:s, s:I}", "t", "gone", "job",
						  (json_int_t)job->id), true);
	}
}

/* Lost agents of an ended job cannot come back; connected ones will report the end themselves. */
static void take_ended(struct gck_daemon *d, const json_t *ended)
{
	json_t *id;
	size_t i;

	json_array_foreach(ended, i, id) {
		struct gck_job *job = gck_state_job(&d->core.state,
						    (uint32_t)json_integer_value(id));

		for (struct gck_step *step = job ? job->steps : NULL; step; step = step->next)
			if (step->live && !gck_live_any_here(step->live))
				gck_join_end(&d->core, step);
	}
}

/* ---- the query ----------------------------------------------------------------------------- */

static void add_job(json_t *jobs, const char *node, uint32_t id)
{
	json_t *list = json_object_get(jobs, node);
	json_t *one;
	size_t i;

	if (!list) {
		list = json_array();
		json_object_set_new(jobs, node, list);
	}
	json_array_foreach(list, i, one)
		if (json_integer_value(one) == id)
			return;
	json_array_append_new(list, json_integer(id));
}

/* {node: [job]} of the connected agents. */
static json_t *jobs_by_node(const struct gck_daemon *d)
{
	json_t *jobs = json_object();

	for (const struct gck_job *job = d->core.state.jobs; job; job = job->next)
		for (const struct gck_step *step = job->steps; step; step = step->next)
			for (uint32_t i = 0; step->live && i < step->live->nnodes; i++)
				if (step->live->nodes[i].agent && !step->live->nodes[i].over)
					add_job(jobs, step->live->nodes[i].name, job->id);
	return jobs;
}

static json_t *known_jobs(const struct gck_daemon *d)
{
	json_t *ids = json_array();

	for (const struct gck_job *job = d->core.state.jobs; job; job = job->next)
		if (!job->gone)
			json_array_append_new(ids, json_integer(job->id));
	return ids;
}

static void on_answer(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_daemon *d = arg;

	d->polling = false;
	if (!answer->ok) {
		gck_warn("nodes cannot be watched: %s", answer->error);
		return;
	}
	take_leaving(d, json_object_get(answer->data, "leaving"));
	take_gone(d, json_object_get(answer->data, "gone"));
	take_ended(d, json_object_get(answer->data, "ended"));
}

static void compact_if_long(struct gck_daemon *d)
{
	struct gck_error err = {0};

	if (gck_journal_is_long(d->journal) && gck_daemon_compact(d, &err))
		gck_error_log("%s", err.text);
}

static void on_poll(struct ev_loop *loop, ev_timer *w, int events)
{
	struct gck_daemon *d = w->data;
	bool look_at_jobs = d->polls++ % JOBS_EVERY == 0;
	json_t *jobs, *check;

	(void)loop;
	(void)events;
	compact_if_long(d);
	if (look_at_jobs) {
		gck_finish_check_all(&d->core);
		gck_expire(&d->core);
		gck_sweep_start(d);
		gck_scan_start(d);
	}
	if (d->polling)
		return;
	jobs = jobs_by_node(d);
	check = look_at_jobs ? known_jobs(d) : json_array();
	if (!json_object_size(jobs) && !json_array_size(check)) {
		json_decref(jobs);
		json_decref(check);
		return;
	}
	d->polling = true;
	gck_slurm_ask(&d->slurm,
		      json_pack("{s:s, s:o, s:i, s:o}", "op", "nodes", "jobs", jobs, "lead", LEAD_S,
				"check", check),
		      on_answer, d);
}

/* ---- the configuration --------------------------------------------------------------------- */

static void ask_conf(int events, void *arg);

static void on_conf(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_daemon *d = arg;
	const char *cluster = json_string_value(json_object_get(answer->data, "cluster"));

	if (!answer->ok) {
		gck_warn("slurmctld does not tell its configuration: %s", answer->error);
		ev_once(d->loop, -1, 0, CONF_RETRY_S, ask_conf, d);
		return;
	}
	d->slurm_user = (uid_t)json_integer_value(json_object_get(answer->data, "slurm_user"));
	snprintf(d->slurm_user_name, sizeof d->slurm_user_name, "%s",
		 json_string_value(json_object_get(answer->data, "slurm_user_name")) ?: "");
	d->core.slurmd_timeout_s = json_integer_value(
		json_object_get(answer->data, "slurmd_timeout"));
	if (cluster && !*d->conf.cluster)
		snprintf(d->conf.cluster, sizeof d->conf.cluster, "%s", cluster);
	else if (cluster && strcmp(cluster, d->conf.cluster) != 0)
		gck_error_log("ClusterName=%s in gpuckpt.conf, but slurm.conf has %s",
			      d->conf.cluster, cluster);
	gck_scan_start(d);
}

static void ask_conf(int events, void *arg)
{
	struct gck_daemon *d = arg;

	(void)events;
	gck_slurm_ask(&d->slurm, json_pack("{s:s}", "op", "conf"), on_conf, d);
}

void gck_watch_start(struct gck_daemon *d)
{
	ask_conf(0, d);
	ev_timer_init(&d->poll, on_poll, 1., d->conf.poll_s);
	d->poll.data = d;
	ev_timer_start(d->loop, &d->poll);
}
