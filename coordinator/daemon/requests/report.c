/* SPDX-License-Identifier: Apache-2.0
 * Answers to list, show and status. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/core/agents/answer.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/model/remnant.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/daemon/requests/requests.h"

#define HEAD 4096 /* bytes of an answer beside its steps */

/* The owner, root, SlurmUser and the coordinator's own user may. munge vouches for the uid.
 * Operators and administrators of Slurm's accounting act as one of these. */
bool gck_may_see(const struct gck_daemon *d, uid_t uid, uid_t owner)
{
	return uid == 0 || uid == owner || uid == d->slurm_user || uid == geteuid();
}

typedef json_t *step_fn(const struct gck_daemon *d, const struct gck_step *step);

static json_t *commit_entry(const struct gck_commit *c)
{
	json_t *e = c->info ? json_deep_copy(c->info) : json_object();

	json_object_set_new(e, "seq", json_integer(c->seq));
	json_object_set_new(e, "hash", json_string(c->hash));
	json_object_set_new(e, "time", json_integer(c->time));
	json_object_set_new(e, "restarts", json_integer(c->restarts));
	json_object_set_new(e, "abandoned", json_boolean(c->abandoned));
	return e;
}

static const char *state_name(const struct gck_step *step)
{
	uint64_t done, all;

	if (step->finished)
		return "finished";
	if (!step->live || step->live->phase == GCK_OVER)
		return step->job->gone ? "gone" : step->failures.held ? "held" : "not running";
	return gck_live_progress(step->live, &done, &all);
}

static json_t *step_head(const struct gck_step *step)
{
	const struct gck_job *job = step->job;
	json_t *e = json_pack("{s:I, s:I, s:s, s:I, s:s, s:I, s:s, s:b}", "job",
			 (json_int_t)step->job->id, "step", (json_int_t)step->id, "user",
			 step->job->user, "uid", (json_int_t)step->job->uid, "state",
			 state_name(step), "restarts", (json_int_t)step->restarts, "store",
			 step->store, "disabled", step->disabled);

	if (job->array)
		json_object_set_new(e, "array_task", json_sprintf("%u_%u", job->array, job->task));
	return e;
}

static json_t *list_step(const struct gck_daemon *d, const struct gck_step *step)
{
	json_t *e = step_head(step), *commits = json_array();

	for (const struct gck_commit *c = step->commits; c; c = c->older)
		json_array_insert_new(commits, 0, commit_entry(c));
	json_object_set_new(e, "cluster", json_string(d->conf.cluster));
	json_object_set_new(e, "commits", commits);
	return e;
}

static json_t *node_entry(const struct gck_node *node)
{
	return json_pack("{s:s, s:b, s:b, s:O?}", "node", node->name, "connected",
			 node->agent != NULL, "over", node->over, "ranks", node->ranks);
}

/* The mean of bytes per second since the phase began. */
static json_int_t rate_of(uint64_t done, int64_t ms)
{
	return ms > 0 ? (json_int_t)((double)done * 1e3 / (double)ms) : 0;
}

static const char *phase_of(const struct gck_live *live)
{
	const char *asked = gck_phase_question(live->phase);

	return *asked ? asked : gck_phase_name(live->phase);
}

static void add_progress(json_t *e, const struct gck_daemon *d, const struct gck_step *step)
{
	const struct gck_live *live = step->live;
	int64_t ms = d->core.world->now_ms() - live->phase_since_ms;
	uint64_t done, all;

	gck_live_progress(live, &done, &all);
	if (live->checkpoint.seq)
		json_object_set_new(e, "checkpoint",
				    json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:f}", "seq",
					      (json_int_t)live->checkpoint.seq, "phase",
					      phase_of(live), "reason",
					      live->checkpoint.reason, "done", (json_int_t)done,
					      "all", (json_int_t)all, "rate", rate_of(done, ms),
					      "seconds", (double)ms / 1e3));
	else if (live->phase <= GCK_STARTING)
		json_object_set_new(e, "restart", json_pack("{s:I, s:I, s:I, s:I}", "seq",
				    (json_int_t)live->plan.seq, "done", (json_int_t)done, "all",
				    (json_int_t)all, "rate", rate_of(done, ms)));
}

/* Ranks of the job's former start may still run. */
static void add_wait(json_t *e, const struct gck_daemon *d, const struct gck_step *step)
{
	int64_t left = gck_remnants_left_ms(&d->core, step->job);

	if (left > 0 && step->live->fenced && step->live->phase == GCK_GATHERING)
		json_object_set_new(e, "waits", json_pack("{s:o, s:I}", "why",
				    gck_remnants_text(step->job, left), "seconds",
				    (json_int_t)(left + 999) / 1000));
}

static void add_error(json_t *e, const char *why, int64_t time)
{
	json_object_set_new(e, "last_error", json_string(why));
	json_object_set_new(e, "last_error_time", json_integer(time));
}

/* The journal has the reason why a restart failed; others are forgotten with the live part. */
static void add_errors(json_t *e, const struct gck_step *step)
{
	const struct gck_failures *f = &step->failures;
	const struct gck_live *live = step->live;

	if (f->all)
		json_object_set_new(e, "restart_failures", json_integer(f->all));
	if (live && *live->last_error && live->last_error_time >= f->time)
		add_error(e, live->last_error, live->last_error_time);
	else if (f->why)
		add_error(e, f->why, f->time);
}

static json_t *status_step(const struct gck_daemon *d, const struct gck_step *step)
{
	const struct gck_live *live = step->live;
	json_t *e = step_head(step), *nodes = json_array();

	json_object_set_new(e, "ntasks", json_integer(step->ntasks));
	json_object_set_new(e, "ended", json_integer(gck_step_ended(step)));
	json_object_set_new(e, "options", json_string(step->options));
	if (step->run_seq)
		json_object_set_new(e, "restored", json_integer(step->run_seq));
	if (step->commits)
		json_object_set_new(e, "last", commit_entry(step->commits));
	for (uint32_t i = 0; live && i < live->nnodes; i++)
		json_array_append_new(nodes, node_entry(&live->nodes[i]));
	json_object_set_new(e, "nodes", nodes);
	if (live)
		add_progress(e, d, step);
	if (live)
		add_wait(e, d, step);
	if (live && live->phase == GCK_IDLE && live->next_ms && !step->disabled)
		json_object_set_new(e, "next", json_integer(live->next_ms / 1000));
	add_errors(e, step);
	return e;
}

/* Not commits that a former owner of the job id has left. */
static json_t *job_steps(const struct gck_daemon *d, uid_t uid, const struct gck_job *job,
			 uint32_t step, step_fn *entry)
{
	json_t *out = json_array();

	for (const struct gck_step *s = job->steps; s; s = s->next)
		if ((step == GCK_EVERY_STEP || s->id == step) && gck_may_see(d, uid, s->uid))
			json_array_append_new(out, entry(d, s));
	return out;
}

static json_t *report(const struct gck_daemon *d, uid_t uid, const struct gck_report_range *range,
		      step_fn *entry)
{
	json_t *steps = json_array(), *out = json_pack("{s:o}", "steps", steps);
	size_t bytes = 0;

	for (const struct gck_job *j = d->core.state.jobs; j && j->id <= range->last; j = j->next) {
		json_t *some;

		if (j->id < range->first || !gck_may_see(d, uid, j->uid))
			continue;
		some = job_steps(d, uid, j, range->step, entry);
		bytes += json_dumpb(some, NULL, 0, JSON_COMPACT);
		if (bytes > GCK_ANSWER_MAX - HEAD && json_array_size(steps))
			json_object_set_new(out, "more", json_integer(j->id));
		else
			json_array_extend(steps, some);
		json_decref(some);
		if (json_object_get(out, "more"))
			break;
	}
	return out;
}

json_t *gck_report_list(const struct gck_daemon *d, uid_t uid, const struct gck_report_range *range)
{
	return report(d, uid, range, list_step);
}

json_t *gck_report_status(const struct gck_daemon *d, uid_t uid,
			  const struct gck_report_range *range)
{
	json_t *head = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "version", PACKAGE_VERSION,
				 "cluster", d->conf.cluster, "epoch",
				 (json_int_t)d->core.state.epoch, "since",
				 (json_int_t)d->core.since, "agents", (json_int_t)d->nagents,
				 "time", (json_int_t)(d->core.world->now_ms() / 1000));
	json_t *steps = report(d, uid, range, status_step);

	json_object_update(head, steps);
	json_decref(steps);
	return head;
}

json_t *gck_report_tasks(const struct gck_daemon *d, uid_t uid, uint32_t id)
{
	json_t *jobs = json_array();

	for (const struct gck_job *j = d->core.state.jobs; j; j = j->next)
		if (j->array && j->array == id && gck_may_see(d, uid, j->uid))
			json_array_append_new(jobs, json_pack("{s:I, s:I}", "job",
							      (json_int_t)j->id, "task",
							      (json_int_t)j->task));
	return json_pack("{s:o}", "jobs", jobs);
}

json_t *gck_report_show(const struct gck_daemon *d, const struct gck_step *step,
			const struct gck_commit *commit)
{
	json_t *e = commit_entry(commit);
	char name[64], owner[16] = ""; /* in an object store keys are below the owner's UID */

	json_object_set_new(e, "job", json_integer(step->job->id));
	json_object_set_new(e, "step", json_integer(step->id));
	json_object_set_new(e, "user", json_string(step->job->user));
	json_object_set_new(e, "cluster", json_string(d->conf.cluster));
	json_object_set_new(e, "store", json_string(step->store));
	json_object_set_new(e, "fingerprint", step->fingerprint ? json_incref(step->fingerprint) :
			    json_null());
	if (!strncmp(step->store, "s3:", 3))
		snprintf(owner, sizeof owner, "/%u", (unsigned)step->uid);
	snprintf(name, sizeof name, "/%u/%u/commit-%u.json", step->job->id, step->id, commit->seq);
	json_object_set_new(e, "path",
			    json_sprintf("%s/%s%s%s", step->store, d->conf.cluster, owner, name));
	return e;
}
