/* SPDX-License-Identifier: Apache-2.0
 * Records applied to the state, by tables with one function a type; and the state as records, which
 * a compacted journal holds. */
#include "coordinator/core/model/record.h"

#include <string.h>
#include <time.h>

#include "coordinator/core/model/record_fields.h"

/* ---- records to the state ------------------------------------------------------------------- */

static int apply_epoch(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_int_t epoch, doubt = s->doubt;

	if (gck_record_unpack(r, err, "{s:I, s?I}", "epoch", &epoch, "doubt", &doubt))
		return -1;
	s->doubt = doubt;
	return gck_record_narrow(epoch, &s->epoch, "epoch", err);
}

static const struct gck_record_type records_of_all[] = {
	{ "epoch", apply_epoch },
	{ NULL, NULL },
};

int gck_record_apply(struct gck_state *s, const json_t *record, struct gck_error *err)
{
	static const struct gck_record_type *const tables[] = {
		records_of_all, gck_records_of_steps, gck_records_of_commits
	};
	const char *name = json_string_value(json_object_get(record, "t"));

	for (size_t i = 0; name && i < sizeof tables / sizeof *tables; i++)
		for (const struct gck_record_type *t = tables[i]; t->name; t++)
			if (!strcmp(t->name, name))
				return t->apply(s, (json_t *)record, err);
	return gck_fail(err, EINVAL,
			"a record of the unknown type \"%s\" (written by a newer release?)",
			name ? name : "");
}

/* ---- the state to records ------------------------------------------------------------------- */

static void add(json_t *out, json_t *record)
{
	if (record)
		json_array_append_new(out, record);
}

static json_t *about(const struct gck_step *step, const char *type)
{
	return json_pack("{s:s, s:I, s:I}", "t", type, "job", (json_int_t)step->job->id, "step",
			 (json_int_t)step->id);
}

static void add_seq(json_t *out, const struct gck_step *step, const char *type, uint32_t seq)
{
	json_t *r = about(step, type);

	json_object_set_new(r, "seq", json_integer(seq));
	add(out, r);
}

static void dump_incarnation(json_t *out, const struct gck_step *step)
{
	json_t *r = about(step, "step");

	json_object_set_new(r, "uid", json_integer(step->uid));
	json_object_set_new(r, "restarts", json_integer(step->restarts));
	json_object_set_new(r, "nodes", json_integer(step->nodes));
	json_object_set_new(r, "ntasks", json_integer(step->ntasks));
	json_object_set_new(r, "store", json_string(step->store));
	json_object_set_new(r, "options", json_string(step->options));
	json_object_set(r, "fingerprint", step->fingerprint ? step->fingerprint : json_null());
	add(out, r);
	r = about(step, "seq");
	json_object_set_new(r, "seq", json_integer(step->last_seq));
	json_object_set_new(r, "listed", json_boolean(step->listed));
	add(out, r);
}

static void dump_exits(json_t *out, const struct gck_step *step)
{
	for (uint32_t i = 0; i < step->ntasks; i++) {
		json_t *r;

		if (step->exits[i] == GCK_NO_EXIT)
			continue;
		r = about(step, "exit");
		json_object_set_new(r, "rank", json_integer(i));
		json_object_set_new(r, "status", json_integer(step->exits[i]));
		add(out, r);
	}
}

static void dump_byes(json_t *out, const struct gck_step *step)
{
	for (uint32_t i = 0; step->over && i < step->nodes; i++) {
		json_t *r;

		if (!step->over[i])
			continue;
		r = about(step, "bye");
		json_object_set_new(r, "node", json_integer(i));
		add(out, r);
	}
}

static void dump_flags(json_t *out, const struct gck_step *step)
{
	if (step->restore_seq)
		add_seq(out, step, "restore", step->restore_seq);
	if (step->decided) {
		json_t *r = about(step, "run");

		json_object_set_new(r, "seq", json_integer(step->run_seq));
		json_object_set_new(r, "ms", json_integer(step->run_ms));
		add(out, r);
	}
	if (step->finished)
		add(out, about(step, "finished"));
	if (step->disabled) {
		json_t *r = about(step, "disable");

		json_object_set_new(r, "value", json_true());
		add(out, r);
	}
}

static void dump_failures(json_t *out, const struct gck_step *step)
{
	const struct gck_failures *f = &step->failures;
	json_t *r = f->all || f->held ? about(step, f->held ? "held" : "failed") : NULL;

	if (!r)
		return;
	if (!f->held)
		json_object_update_new(r, json_pack("{s:I, s:I, s:I, s:b}", "seq",
						    (json_int_t)f->seq, "all", (json_int_t)f->all,
						    "same", (json_int_t)f->same, "spent",
						    f->spent));
	json_object_set_new(r, "time", json_integer(f->time));
	json_object_set_new(r, "why", json_string(f->why ? f->why : ""));
	add(out, r);
}

static void dump_commits(json_t *out, const struct gck_step *step)
{
	for (const struct gck_commit *c = step->commits; c; c = c->older) {
		json_t *r = about(step, "commit");

		json_object_set_new(r, "seq", json_integer(c->seq));
		json_object_set_new(r, "restarts", json_integer(c->restarts));
		json_object_set_new(r, "hash", json_string(c->hash));
		json_object_set_new(r, "time", json_integer(c->time));
		json_object_set_new(r, "abandoned", json_boolean(c->abandoned));
		json_object_set_new(r, "aside", json_boolean(c->aside));
		if (c->info)
			json_object_set(r, "info", c->info);
		add(out, r);
	}
}

/* Removal numbers are never reused: an agent's late `swept` refers to an older one. */
static void dump_removals(json_t *out, const struct gck_step *step)
{
	json_t *r;

	if (!step->removals)
		return;
	r = about(step, "remove");
	json_object_set_new(r, "seqs", json_array());
	json_object_set_new(r, "removals", json_integer(step->removals));
	add(out, r);
	r = about(step, "swept");
	json_object_set_new(r, "removals", json_integer(step->swept));
	add(out, r);
}

static void dump_intent(json_t *out, const struct gck_step *step)
{
	const struct gck_intent *in = &step->intent;
	json_t *r;

	if (!in->seq)
		return;
	r = about(step, "intent");
	json_object_set_new(r, "seq", json_integer(in->seq));
	json_object_set_new(r, "nonce", json_string(in->nonce));
	json_object_set_new(r, "held", json_boolean(in->held));
	if (in->import) {
		json_object_set(r, "import", in->import);
		json_object_set(r, "info", in->info);
	}
	add(out, r);
	if (in->committing) {
		r = about(step, "committing");
		json_object_set_new(r, "seq", json_integer(in->seq));
		if (in->info)
			json_object_set(r, "info", in->info);
		add(out, r);
	}
}

static void dump_unheard(json_t *out, const struct gck_step *step)
{
	json_t *r;

	if (!step->unheard)
		return;
	r = about(step, "abort");
	json_object_set_new(r, "seq", json_integer(step->unheard));
	json_object_set_new(r, "unheard", json_true());
	add(out, r);
}

static void dump_job(json_t *out, const struct gck_job *job)
{
	json_t *r = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:b, s:b}", "t", "job", "job",
			      (json_int_t)job->id, "uid", (json_int_t)job->uid, "user", job->user,
			      "restarts", (json_int_t)job->restarts, "submit",
			      (json_int_t)job->submit, "batch", job->batch, "gone", job->gone);

	if (job->array) {
		json_object_set_new(r, "array", json_integer(job->array));
		json_object_set_new(r, "task", json_integer(job->task));
	}
	add(out, r);
	if (job->requeued)
		add(out, json_pack("{s:s, s:I, s:b}", "t", "requeue", "job", (json_int_t)job->id,
				   "value", 1));
	if (job->remnants)
		add(out, json_pack("{s:s, s:I, s:I, s:O}", "t", "remnants", "job",
				   (json_int_t)job->id, "until_ms",
				   (json_int_t)job->remnants_until_ms, "nodes", job->remnants));
	if (job->key)
		add(out, json_pack("{s:s, s:I, s:s}", "t", "key", "job", (json_int_t)job->id, "key",
				   job->key));
	for (const struct gck_step *step = job->steps; step; step = step->next) {
		dump_incarnation(out, step);
		dump_exits(out, step);
		dump_byes(out, step);
		dump_commits(out, step);
		dump_flags(out, step);
		dump_failures(out, step);
		dump_removals(out, step);
		dump_unheard(out, step);
		dump_intent(out, step);
	}
}

json_t *gck_state_dump(const struct gck_state *s)
{
	json_t *out = json_array();

	if (!out)
		return NULL;
	add(out, json_pack("{s:s, s:I, s:I, s:I}", "t", "epoch", "epoch", (json_int_t)s->epoch,
			   "time", (json_int_t)time(NULL), "doubt", (json_int_t)s->doubt));
	for (const struct gck_job *job = s->jobs; job; job = job->next)
		dump_job(out, job);
	return out;
}
