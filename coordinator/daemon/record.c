/* SPDX-License-Identifier: Apache-2.0
 * Records applied to the state; one function a type, in one table. dump.c is the way back. */
#include "coordinator/daemon/record.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/daemon/live.h"

typedef int apply_fn(struct gck_state *s, json_t *r, struct gck_error *err);

static int no_memory(struct gck_error *err)
{
	return gck_fail(err, ENOMEM, "no memory for the coordinator's state");
}

/* Members by json_unpack_ex: the text of its failure names the member. */
#define UNPACK(r, err, ...) unpack_failed(json_unpack_ex(r, &bad, 0, __VA_ARGS__), &bad, err)

static int unpack_failed(int rc, const json_error_t *bad, struct gck_error *err)
{
	return rc ? gck_fail(err, EINVAL, "a record is malformed: %s", bad->text) : 0;
}

/* 64 bits in the file, 32 in the state. */
static int narrow(json_int_t value, uint32_t *out, const char *name, struct gck_error *err)
{
	if (value < 0 || value > UINT32_MAX)
		return gck_fail(err, ERANGE, "%s is out of range: %" JSON_INTEGER_FORMAT, name,
				value);
	*out = (uint32_t)value;
	return 0;
}

static struct gck_step *find_step(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_error_t bad;
	json_int_t job, step;
	struct gck_step *found;

	if (UNPACK(r, err, "{s:I, s:I}", "job", &job, "step", &step))
		return NULL;
	found = gck_state_step(s, (uint32_t)job, (uint32_t)step);
	if (!found)
		gck_fail(err, EINVAL, "a record is about step %" JSON_INTEGER_FORMAT ".%"
			 JSON_INTEGER_FORMAT ", which no record before it made", job, step);
	return found;
}

static struct gck_job *find_job(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_error_t bad;
	json_int_t id;
	struct gck_job *job;

	if (UNPACK(r, err, "{s:I}", "job", &id))
		return NULL;
	job = gck_state_job(s, (uint32_t)id);
	if (!job)
		gck_fail(err, EINVAL, "a record is about job %" JSON_INTEGER_FORMAT
			 ", which no record before it made", id);
	return job;
}

static struct gck_step *find_step_seq(struct gck_state *s, json_t *r, uint32_t *seq,
				      struct gck_error *err)
{
	json_error_t bad;
	json_int_t value;

	if (UNPACK(r, err, "{s:I}", "seq", &value) || narrow(value, seq, "seq", err))
		return NULL;
	return find_step(s, r, err);
}

static int set_text(char **to, const char *text, struct gck_error *err)
{
	char *copy = strdup(text ? text : "");

	if (!copy)
		return no_memory(err);
	free(*to);
	*to = copy;
	return 0;
}

static void set_json(json_t **to, json_t *value)
{
	json_t *copy = value ? json_deep_copy(value) : NULL;

	json_decref(*to);
	*to = copy;
}

static int apply_epoch(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_error_t bad;
	json_int_t epoch;

	if (UNPACK(r, err, "{s:I}", "epoch", &epoch))
		return -1;
	return narrow(epoch, &s->epoch, "epoch", err);
}

/* The id belongs to another job now: nothing of the old one may be restarted from. */
static void forget_former(struct gck_job *job)
{
	for (struct gck_step *step = job->steps; step; step = step->next) {
		for (struct gck_commit *c = step->commits; c; c = c->older)
			c->abandoned = true;
		gck_step_clear_intent(step);
		step->finished = step->decided = step->disabled = false;
		step->run_seq = step->restore_seq = 0;
		set_json(&step->fingerprint, NULL);
	}
}

static int apply_job(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_error_t bad;
	json_int_t id, uid, restarts, submit;
	const char *user;
	int batch, fresh = 0, gone = 0;
	struct gck_job *job;

	if (UNPACK(r, err, "{s:I, s:I, s:s, s:I, s:I, s:b, s?b, s?b}", "job", &id, "uid", &uid,
		   "user", &user, "restarts", &restarts, "submit", &submit, "batch", &batch, "fresh",
		   &fresh, "gone", &gone))
		return -1;
	job = gck_state_add_job(s, (uint32_t)id);
	if (!job)
		return no_memory(err);
	if (set_text(&job->user, user, err))
		return -1;
	if (fresh)
		forget_former(job);
	if (fresh || job->restarts != (uint32_t)restarts)
		job->requeued = false;
	job->uid = (uid_t)uid;
	job->restarts = (uint32_t)restarts;
	job->submit = submit;
	job->batch = batch;
	job->gone = gone;
	return 0;
}

static int apply_gone(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = find_job(s, r, err);

	if (!job)
		return -1;
	job->gone = true;
	return 0;
}

static int apply_requeue(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = find_job(s, r, err);
	json_error_t bad;
	int value;

	if (!job || UNPACK(r, err, "{s:b}", "value", &value))
		return -1;
	job->requeued = value;
	return 0;
}

static size_t weight(const struct gck_step *step)
{
	return strlen(step->store) + strlen(step->options) +
	       json_dumpb(step->fingerprint, NULL, 0, JSON_COMPACT) +
	       step->ntasks * sizeof *step->exits + step->nodes * sizeof(struct gck_node);
}

static int fill_step(struct gck_step *step, json_t *r, struct gck_error *err)
{
	json_error_t bad;
	json_int_t restarts, nodes, ntasks;
	const char *store, *options;
	json_t *fingerprint;

	if (UNPACK(r, err, "{s:I, s:I, s:I, s:s, s:s, s:o}", "restarts", &restarts, "nodes", &nodes,
		   "ntasks", &ntasks, "store", &store, "options", &options, "fingerprint",
		   &fingerprint))
		return -1;
	if (nodes < 1 || nodes > GCK_MAX_NODES || ntasks < 1 || ntasks > GCK_MAX_TASKS)
		return gck_fail(err, ERANGE, "a step with %" JSON_INTEGER_FORMAT " nodes and %"
				JSON_INTEGER_FORMAT " tasks cannot be", nodes, ntasks);
	if (set_text(&step->store, store, err) || set_text(&step->options, options, err))
		return -1;
	if (gck_step_begin(step, (uint32_t)restarts, (uint32_t)ntasks))
		return no_memory(err);
	step->nodes = (uint32_t)nodes;
	set_json(&step->fingerprint, fingerprint);
	step->bytes = weight(step);
	return 0;
}

static int apply_step(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_job *job = find_job(s, r, err);
	struct gck_step *step;
	json_error_t bad;
	json_int_t id;

	if (!job || UNPACK(r, err, "{s:I}", "step", &id))
		return -1;
	step = gck_job_add_step(job, (uint32_t)id);
	return step ? fill_step(step, r, err) : no_memory(err);
}

static int apply_restore(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);

	if (!step)
		return -1;
	step->restore_seq = seq;
	return 0;
}

/* What was committed after the commit that is gone back to, or at all before a cold start, is of a
 * line that ends here. */
static int apply_run(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);

	if (!step)
		return -1;
	for (struct gck_commit *c = step->commits; c; c = c->older)
		if (c->seq > seq && c->restarts < step->restarts)
			c->abandoned = true;
	step->run_seq = seq;
	step->decided = true;
	return 0;
}

static int apply_exit(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = find_step(s, r, err);
	json_error_t bad;
	json_int_t rank, status;

	if (!step || UNPACK(r, err, "{s:I, s:I}", "rank", &rank, "status", &status))
		return -1;
	if (rank < 0 || rank >= step->ntasks)
		return gck_fail(err, ERANGE, "step %u.%u has no rank %" JSON_INTEGER_FORMAT,
				step->job->id, step->id, rank);
	step->exits[rank] = (int32_t)status;
	return 0;
}

static int apply_bye(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = find_step(s, r, err);
	json_error_t bad;
	json_int_t node;

	if (!step || UNPACK(r, err, "{s:I}", "node", &node))
		return -1;
	if (node < 0 || node >= step->nodes)
		return gck_fail(err, ERANGE, "step %u.%u has no node %" JSON_INTEGER_FORMAT,
				step->job->id, step->id, node);
	if (!step->over)
		step->over = calloc(step->nodes, sizeof *step->over);
	if (!step->over)
		return no_memory(err);
	step->over[node] = true;
	return 0;
}

static int apply_finished(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = find_step(s, r, err);

	if (!step)
		return -1;
	step->finished = true;
	return 0;
}

static int apply_intent(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);
	json_error_t bad;
	const char *nonce;
	int held;

	if (!step || UNPACK(r, err, "{s:s, s:b}", "nonce", &nonce, "held", &held))
		return -1;
	if (strlen(nonce) >= sizeof step->intent.nonce)
		return gck_fail(err, EINVAL, "the nonce %s is too long", nonce);
	gck_step_clear_intent(step);
	step->intent.seq = seq;
	step->intent.held = held;
	strcpy(step->intent.nonce, nonce);
	if (step->last_seq < seq)
		step->last_seq = seq;
	return 0;
}

static int apply_committing(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);

	if (!step)
		return -1;
	if (step->intent.seq != seq)
		return gck_fail(err, EINVAL,
				"checkpoint %u of step %u.%u is committed but was not begun", seq,
				step->job->id, step->id);
	step->intent.committing = true;
	set_json(&step->intent.info, json_object_get(r, "info"));
	return 0;
}

static int apply_commit(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);
	json_error_t bad;
	json_int_t restarts, time, keep = 0;
	const char *hash;
	int abandoned = 0;
	struct gck_commit *c;

	if (!step || UNPACK(r, err, "{s:I, s:s, s:I, s?I, s?b}", "restarts", &restarts, "hash",
			    &hash, "time", &time, "keep", &keep, "abandoned", &abandoned))
		return -1;
	if (strlen(hash) >= sizeof c->hash)
		return gck_fail(err, EINVAL, "\"%s\" is not the hash of a commit", hash);
	c = gck_step_add_commit(step, seq);
	if (!c)
		return no_memory(err);
	strcpy(c->hash, hash);
	c->restarts = (uint32_t)restarts;
	c->time = time;
	c->abandoned = abandoned;
	set_json(&c->info, json_object_get(r, "info"));
	if (step->last_seq < seq)
		step->last_seq = seq;
	if (step->intent.seq == seq)
		gck_step_clear_intent(step);
	if (keep > 0)
		gck_step_prune(step, (unsigned)keep);
	return 0;
}

static int apply_abort(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);

	if (!step)
		return -1;
	if (step->intent.seq == seq)
		gck_step_clear_intent(step);
	return 0;
}

static int apply_seq(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = find_step_seq(s, r, &seq, err);

	if (!step)
		return -1;
	if (step->last_seq < seq)
		step->last_seq = seq;
	return 0;
}

static int apply_disable(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = find_step(s, r, err);
	json_error_t bad;
	int value;

	if (!step || UNPACK(r, err, "{s:b}", "value", &value))
		return -1;
	step->disabled = value;
	return 0;
}

static int apply_remove(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = find_step(s, r, err);
	json_error_t bad;
	json_t *seqs, *seq;
	size_t i;

	if (!step || UNPACK(r, err, "{s:o}", "seqs", &seqs))
		return -1;
	json_array_foreach(seqs, i, seq)
		gck_step_drop_commit(step, (uint32_t)json_integer_value(seq));
	return 0;
}

static const struct {
	const char *name;
	apply_fn *apply;
} types[] = {
	{"epoch", apply_epoch},     {"job", apply_job},           {"gone", apply_gone},
	{"requeue", apply_requeue}, {"step", apply_step},         {"restore", apply_restore},
	{"run", apply_run},         {"exit", apply_exit},         {"finished", apply_finished},
	{"bye", apply_bye},
	{"intent", apply_intent},   {"committing", apply_committing},
	{"commit", apply_commit},   {"abort", apply_abort},       {"seq", apply_seq},
	{"disable", apply_disable}, {"remove", apply_remove},
};

int gck_record_apply(struct gck_state *s, const json_t *record, struct gck_error *err)
{
	const char *name = json_string_value(json_object_get(record, "t"));

	for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, name))
			return types[i].apply(s, (json_t *)record, err);
	return gck_fail(err, EINVAL,
			"a record of the unknown type \"%s\" (written by a newer release?)",
			name ? name : "");
}
