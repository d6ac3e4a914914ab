/* SPDX-License-Identifier: Apache-2.0
 * Records of jobs and steps: their incarnations, how these started and ended. */
#include "coordinator/core/model/record_fields.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/core/model/live.h"

static int set_text(char **to, const char *text, struct gck_error *err)
{
	char *copy = strdup(text ? text : "");

	if (!copy)
		return gck_record_no_memory(err);
	free(*to);
	*to = copy;
	return 0;
}

/* The id belongs to another job now: no commit of the old job may be restarted from. */
static void forget_former(struct gck_job *job)
{
	free(job->key);
	job->key = NULL;
	gck_record_set_json(&job->remnants, NULL);
	for (struct gck_step *step = job->steps; step; step = step->next) {
		for (struct gck_commit *c = step->commits; c; c = c->older)
			c->abandoned = true;
		gck_step_give_up_intent(step);
		step->finished = step->decided = step->disabled = step->listed = false;
		step->run_seq = step->restore_seq = step->unheard = 0;
		gck_step_clear_failures(step);
		step->from_job = step->from_seq = 0;
		gck_record_set_json(&step->fingerprint, NULL);
	}
}

static void set_remnants(struct gck_job *job, json_t *nodes, json_int_t until_ms)
{
	gck_record_set_json(&job->remnants, json_array_size(nodes) ? nodes : NULL);
	job->remnants_until_ms = until_ms;
}

static int apply_job(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_int_t id, uid, restarts, submit, array = 0, task = 0, until = 0;
	const char *user;
	int batch, fresh = 0, gone = 0;
	json_t *nodes = NULL;
	struct gck_job *job;

	if (gck_record_unpack(r, err, "{s:I, s:I, s:s, s:I, s:I, s:b, s?b, s?b, s?I, s?I, s?I, "
			      "s?o}", "job", &id, "uid", &uid, "user", &user, "restarts",
			      &restarts, "submit", &submit, "batch", &batch, "fresh", &fresh,
			      "gone", &gone, "array", &array, "task", &task, "until_ms", &until,
			      "nodes", &nodes))
		return -1;
	job = gck_state_add_job(s, (uint32_t)id);
	if (!job)
		return gck_record_no_memory(err);
	if (set_text(&job->user, user, err))
		return -1;
	if (fresh)
		forget_former(job);
	if (nodes)
		set_remnants(job, nodes, until);
	if (fresh || job->restarts != (uint32_t)restarts)
		job->requeued = false;
	job->uid = (uid_t)uid;
	job->restarts = (uint32_t)restarts;
	job->submit = submit;
	job->array = (uint32_t)array;
	job->task = (uint32_t)task;
	job->batch = batch;
	job->gone = gone;
	return 0;
}

static int apply_gone(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = gck_record_find_job(s, r, err);

	if (!job)
		return -1;
	job->gone = true;
	return 0;
}

static int apply_requeue(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = gck_record_find_job(s, r, err);
	int value;

	if (!job || gck_record_unpack(r, err, "{s:b}", "value", &value))
		return -1;
	job->requeued = value;
	return 0;
}

static int apply_remnants(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = gck_record_find_job(s, r, err);
	json_int_t until;
	json_t *nodes;

	if (!job || gck_record_unpack(r, err, "{s:I, s:o}", "until_ms", &until, "nodes", &nodes))
		return -1;
	set_remnants(job, nodes, until);
	return 0;
}

static int apply_key(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = gck_record_find_job(s, r, err);
	const char *key;

	if (!job || gck_record_unpack(r, err, "{s:s}", "key", &key))
		return -1;
	if (strlen(key) >= GCK_WRAPPED_MAX)
		return gck_fail(err, EINVAL, "the key of job %u is too long", job->id);
	return set_text(&job->key, key, err);
}

static size_t weight(const struct gck_step *step)
{
	return strlen(step->store) + strlen(step->options) +
	       json_dumpb(step->fingerprint, NULL, 0, JSON_COMPACT) +
	       step->ntasks * sizeof *step->exits + step->nodes * sizeof(struct gck_node);
}

/* The commit that restart= names must not expire (expire.h). A step of a former job, which has no
 * fingerprint, needs none. */
static void set_from(struct gck_step *step)
{
	struct gck_options o;

	gck_options_init(&o);
	step->from_job = step->from_seq = 0;
	if (!json_is_object(step->fingerprint) || gck_options_parse(&o, step->options, NULL) ||
	    o.restart != GCK_RESTART_FROM)
		return;
	step->from_job = o.restart_job;
	step->from_seq = o.restart_seq;
}

static int fill_step(struct gck_step *step, json_t *r, struct gck_error *err)
{
	json_int_t restarts, nodes, ntasks, uid = step->job->uid;
	const char *store, *options;
	json_t *fingerprint;

	if (gck_record_unpack(r, err, "{s:I, s:I, s:I, s:s, s:s, s:o, s?I}", "restarts", &restarts,
			      "nodes", &nodes, "ntasks", &ntasks, "store", &store, "options",
			      &options, "fingerprint", &fingerprint, "uid", &uid))
		return -1;
	if (nodes < 1 || nodes > GCK_MAX_NODES || ntasks < 1 || ntasks > GCK_MAX_TASKS)
		return gck_fail(err, ERANGE, "a step with %" JSON_INTEGER_FORMAT " nodes and %"
				JSON_INTEGER_FORMAT " tasks cannot be", nodes, ntasks);
	if (set_text(&step->store, store, err) || set_text(&step->options, options, err))
		return -1;
	if (gck_step_begin(step, (uint32_t)restarts, (uint32_t)ntasks))
		return gck_record_no_memory(err);
	step->uid = (uid_t)uid;
	step->nodes = (uint32_t)nodes;
	gck_record_set_json(&step->fingerprint, fingerprint);
	set_from(step);
	step->bytes = weight(step);
	return 0;
}

static int apply_step(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = gck_record_find_job(s, r, err);
	struct gck_step *step;
	json_int_t id;

	if (!job || gck_record_unpack(r, err, "{s:I}", "step", &id))
		return -1;
	step = gck_job_add_step(job, (uint32_t)id);
	return step ? fill_step(step, r, err) : gck_record_no_memory(err);
}

static int apply_restore(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);

	if (!step)
		return -1;
	step->restore_seq = seq;
	return 0;
}

/* Commits newer than the one that the step goes back to, or all before a cold start, are abandoned,
 * and so is what a former incarnation left open. */
static int apply_run(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	json_int_t ms = 0;

	if (!step || gck_record_unpack(r, err, "{s?I}", "ms", &ms))
		return -1;
	for (struct gck_commit *c = step->commits; c; c = c->older)
		if (c->seq > seq && c->restarts < step->restarts)
			c->abandoned = true;
	if (!step->decided && step->intent.seq && !step->intent.import)
		gck_step_give_up_intent(step);
	step->run_seq = seq;
	step->run_ms = ms;
	step->decided = true;
	return 0;
}

static int apply_failed(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	struct gck_failures *f = step ? &step->failures : NULL;
	struct gck_commit *c = step ? gck_step_commit(step, seq) : NULL;
	json_int_t all, same, time;
	int spent, aside = 0;
	const char *why;

	if (!step || gck_record_unpack(r, err, "{s:I, s:I, s:b, s?b, s:I, s:s}", "all", &all,
				       "same", &same, "spent", &spent, "aside", &aside, "time",
				       &time, "why", &why))
		return -1;
	if (set_text(&f->why, why, err) || gck_record_narrow(all, &f->all, "all", err) ||
	    gck_record_narrow(same, &f->same, "same", err))
		return -1;
	f->seq = seq;
	f->spent = spent;
	f->held = false;
	f->time = time;
	if (c && aside)
		c->aside = true;
	return 0;
}

static int apply_held(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	json_int_t time;
	const char *why;

	if (!step || gck_record_unpack(r, err, "{s:I, s:s}", "time", &time, "why", &why))
		return -1;
	gck_step_clear_failures(step);
	step->failures.held = true;
	step->failures.time = time;
	return set_text(&step->failures.why, why, err);
}

static int apply_exit(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	json_int_t rank, status;

	if (!step || gck_record_unpack(r, err, "{s:I, s:I}", "rank", &rank, "status", &status))
		return -1;
	if (rank < 0 || rank >= step->ntasks)
		return gck_fail(err, ERANGE, "step %u.%u has no rank %" JSON_INTEGER_FORMAT,
				step->job->id, step->id, rank);
	step->exits[rank] = (int32_t)status;
	return 0;
}

static int apply_bye(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	json_int_t node;

	if (!step || gck_record_unpack(r, err, "{s:I}", "node", &node))
		return -1;
	if (node < 0 || node >= step->nodes)
		return gck_fail(err, ERANGE, "step %u.%u has no node %" JSON_INTEGER_FORMAT,
				step->job->id, step->id, node);
	if (!step->over)
		step->over = calloc(step->nodes, sizeof *step->over);
	if (!step->over)
		return gck_record_no_memory(err);
	step->over[node] = true;
	return 0;
}

static int apply_finished(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);

	if (!step)
		return -1;
	step->finished = true;
	return 0;
}

static int apply_disable(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	int value;

	if (!step || gck_record_unpack(r, err, "{s:b}", "value", &value))
		return -1;
	step->disabled = value;
	return 0;
}

const struct gck_record_type gck_records_of_steps[] = {
	{ "job", apply_job },
	{ "gone", apply_gone },
	{ "requeue", apply_requeue },
	{ "remnants", apply_remnants },
	{ "key", apply_key },
	{ "step", apply_step },
	{ "restore", apply_restore },
	{ "run", apply_run },
	{ "failed", apply_failed },
	{ "held", apply_held },
	{ "exit", apply_exit },
	{ "bye", apply_bye },
	{ "finished", apply_finished },
	{ "disable", apply_disable },
	{ NULL, NULL },
};
