/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/core/retention/take_over.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/model/remnant.h"
#include "coordinator/core/retention/removal.h"
#include "storage/base/hash.h"

/* ---- commits ------------------------------------------------------------------------------- */

struct listed {
	uint32_t seq; /* 0 if it is malformed */
	const char *hash, *fingerprint;
	json_int_t restarts, time, from; /* -1: not told */
	json_t *info;                    /* NULL: not told */
};

static struct listed parse(const json_t *one)
{
	struct listed l = {.fingerprint = "", .restarts = -1, .time = -1, .from = -1};
	struct gck_hash parsed;
	json_int_t seq = 0;

	if (json_unpack((json_t *)one, "{s:I, s:s, s?s, s?I, s?I, s?I, s?o}", "seq", &seq, "hash",
			&l.hash, "fingerprint", &l.fingerprint, "restarts", &l.restarts, "time",
			&l.time, "from", &l.from, "info", &l.info) == 0 && seq > 0 &&
	    seq < UINT32_MAX && l.restarts <= UINT32_MAX && l.from <= UINT32_MAX &&
	    (!l.info || json_is_object(l.info)) && gck_hash_parse(l.hash, &parsed, NULL) == 0)
		l.seq = (uint32_t)seq;
	return l;
}

bool gck_take_over_lacks(const struct gck_step *step, uint32_t seq, uint32_t last)
{
	const struct gck_intent *open = &step->intent;
	bool under_way = step->live && step->live->checkpoint.seq;
	bool doubt = open->seq == seq && !open->import && (open->committing || !step->listed);

	return !gck_step_commit(step, seq) &&
	       (seq > last || seq == step->unheard || (doubt && !under_way));
}

/* Which entries are abandoned: a later incarnation went back behind them. NULL without memory. */
static bool *find_abandoned(const json_t *commits)
{
	size_t n = json_array_size(commits);
	bool *abandoned = calloc(n + 1, sizeof *abandoned);
	/* Of the entry's incarnation, and of all after it: the oldest commit that it came from. */
	json_int_t restarts = -1, from = INT64_MAX, later = INT64_MAX;

	for (size_t i = n; abandoned && i-- > 0;) {
		const struct listed l = parse(json_array_get(commits, i));

		if (json_is_true(json_object_get(l.info, "imported")))
			continue;
		if (restarts < 0 || l.restarts < restarts) {
			later = from < later ? from : later;
			restarts = l.restarts;
			from = INT64_MAX;
		}
		if (l.from >= 0 && l.from < from)
			from = l.from;
		abandoned[i] = l.restarts >= 0 && l.seq > later;
	}
	return abandoned;
}

/* Has the step's newest incarnation gone back behind this commit? It may have none of its own
 * yet. */
static bool is_behind(const struct gck_step *step, uint32_t seq, uint32_t restarts)
{
	return step->decided && restarts < step->restarts && seq > step->run_seq;
}

static void take(struct gck_core *core, struct gck_step *step, const struct listed *l,
		 uint32_t restarts, bool abandoned)
{
	json_t *r = gck_record_seq(step, "commit", l->seq);

	if (l->restarts >= 0)
		restarts = (uint32_t)l->restarts;
	abandoned = abandoned || is_behind(step, l->seq, restarts);
	json_object_set_new(r, "restarts", json_integer(restarts));
	json_object_set_new(r, "hash", json_string(l->hash));
	json_object_set_new(r, "time",
			    json_integer(l->time < 0 ? core->world->now_ms() / 1000 : l->time));
	json_object_set_new(r, "keep", json_integer(GCK_TAKE_OVER_MOST));
	json_object_set_new(r, "abandoned", json_boolean(abandoned));
	if (l->info)
		json_object_set(r, "info", l->info);
	else if (step->intent.seq == l->seq && step->intent.info)
		json_object_set(r, "info", step->intent.info);
	gck_info("step %u.%u: commit %u is taken over from its store", step->job->id, step->id,
		 l->seq);
	gck_core_note(core, r, false); /* a lost record is taken over again later */
}

unsigned gck_take_over(struct gck_core *core, struct gck_step *step, const json_t *commits,
		       uint32_t restarts, bool *foreign)
{
	bool *abandoned = find_abandoned(commits);
	uint32_t last = step->last_seq;
	char mine[GCK_HASH_TEXT];
	unsigned taken = 0;
	json_t *one;
	size_t i;

	gck_hash_json(step->fingerprint, mine);
	json_array_foreach(commits, i, one) {
		const struct listed l = parse(one);

		if (!abandoned || !l.seq || !gck_take_over_lacks(step, l.seq, last))
			continue;
		if (strcmp(mine, l.fingerprint) == 0) {
			take(core, step, &l, restarts, abandoned[i]);
			taken++;
			continue;
		}
		if (foreign)
			*foreign = true;
		gck_warn("step %u.%u: commit %u in its store is another program's", step->job->id,
			 step->id, l.seq);
	}
	free(abandoned);
	return taken;
}

void gck_take_over_numbers(struct gck_core *core, struct gck_step *step, const json_t *commits)
{
	uint32_t last = step->last_seq;
	json_t *one;
	size_t i;

	json_array_foreach(commits, i, one) {
		const struct listed l = parse(one);

		if (!l.seq)
			gck_warn("step %u.%u: a malformed commit in the store is ignored",
				 step->job->id, step->id);
		last = l.seq > last ? l.seq : last;
	}
	if (last > step->last_seq)
		gck_core_note(core, gck_record_seq(step, "seq", last), true);
}

/* ---- steps that no agent registers --------------------------------------------------------- */

struct found {
	json_int_t uid, job, step, ntasks, nodes, restarts;
	const char *user, *store;
	json_t *fingerprint, *commits, *kept;
};

static int parse_found(const json_t *body, struct found *f, struct gck_error *err)
{
	json_error_t bad;

	*f = (struct found){0};
	if (json_unpack_ex((json_t *)body, &bad, 0,
			   "{s:I, s:s, s:I, s:I, s:s, s:I, s:I, s:o, s:o, s:o}", "uid", &f->uid,
			   "user", &f->user, "job", &f->job, "step", &f->step, "store", &f->store,
			   "ntasks", &f->ntasks, "nodes", &f->nodes, "fingerprint",
			   &f->fingerprint, "commits", &f->commits, "kept", &f->kept))
		return gck_fail(err, EINVAL, "a step in a store is malformed: %s", bad.text);
	if (f->job < 1 || f->job > UINT32_MAX || f->step < 0 || f->step > UINT32_MAX ||
	    f->ntasks < 1 || f->ntasks > GCK_MAX_TASKS || f->nodes < 1 ||
	    f->nodes > GCK_MAX_NODES || !json_is_object(f->fingerprint) ||
	    json_dumpb(f->fingerprint, NULL, 0, JSON_COMPACT) > GCK_FINGERPRINT_MAX)
		return gck_fail(err, ERANGE, "its numbers or its program are out of range");
	f->restarts = json_integer_value(json_object_get(
		json_array_get(f->commits, json_array_size(f->commits) - 1), "restarts"));
	return 0;
}

static int check_job(const struct gck_job *job, const struct found *f, const json_t *slurm,
		     struct gck_error *err)
{
	if (slurm && json_integer_value(json_object_get(slurm, "uid")) != f->uid)
		return gck_fail(err, EACCES, "its number is another user's now");
	if (slurm && json_integer_value(json_object_get(slurm, "restarts")) < f->restarts)
		return gck_fail(err, ESTALE, "its number is another job's now");
	if (json_is_true(json_object_get(slurm, "busy")))
		return gck_fail(err, EAGAIN, "the job runs");
	if (job && job->uid != (uid_t)f->uid)
		return gck_fail(err, EACCES, "its number is another user's in the journal");
	return 0;
}

static int check_step(const struct gck_step *step, const struct found *f, struct gck_error *err)
{
	if (step->live)
		return gck_fail(err, EAGAIN, "the step runs");
	if (step->uid != (uid_t)f->uid || !json_equal(step->fingerprint, f->fingerprint))
		return gck_fail(err, ESTALE, "the journal has another program as this step");
	if (strcmp(step->store, f->store) != 0)
		return gck_fail(err, EXDEV, "the journal has this step in store=%.200s",
				step->store);
	return 0;
}

static int journal_job(struct gck_core *core, const struct found *f, const json_t *slurm,
		       struct gck_error *err)
{
	json_t *r = json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:b, s:b}", "t", "job", "job", f->job,
			      "uid", f->uid, "user", f->user, "restarts", f->restarts, "submit",
			      (json_int_t)0, "batch", 0, "gone", !slurm);

	if (slurm)
		json_object_update_existing(r, (json_t *)slurm);
	gck_remnants_note(core, NULL, r);
	return gck_core_record(core, r, false, err);
}

static int journal_step(struct gck_core *core, const struct found *f, struct gck_error *err)
{
	return gck_core_record(core,
			       json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:O}", "t",
					 "step", "job", f->job, "step", f->step, "restarts",
					 f->restarts, "nodes", f->nodes, "ntasks", f->ntasks,
					 "store", f->store, "options", "", "fingerprint",
					 f->fingerprint), false, err);
}

/* The step in the state; NULL: why it is not taken. */
static struct gck_step *enter(struct gck_core *core, const struct found *f, const json_t *slurm,
			      struct gck_error *err)
{
	const struct gck_job *job = gck_state_job(&core->state, (uint32_t)f->job);
	struct gck_step *step = gck_state_step(&core->state, (uint32_t)f->job, (uint32_t)f->step);

	if (check_job(job, f, slurm, err))
		return NULL;
	if (step)
		return check_step(step, f, err) ? NULL : step;
	if (gck_state_check_user(&core->state, (uid_t)f->uid, err) ||
	    (!job && journal_job(core, f, slurm, err)) || journal_step(core, f, err))
		return NULL;
	return gck_state_step(&core->state, (uint32_t)f->job, (uint32_t)f->step);
}

static bool is_kept(const json_t *kept, uint32_t seq)
{
	json_t *one;
	size_t i;

	json_array_foreach(kept, i, one)
		if (json_integer_value(one) == seq)
			return true;
	return false;
}

/* The numbers of the journal's commits that the store has no longer. */
static json_t *missing_of(const struct gck_step *step, const json_t *kept)
{
	json_t *seqs = json_array();

	for (const struct gck_commit *c = step->commits; c; c = c->older)
		if (!is_kept(kept, c->seq))
			json_array_append_new(seqs, json_integer(c->seq));
	return seqs;
}

static void forget(struct gck_core *core, struct gck_step *step, json_t *seqs)
{
	json_t *one;
	size_t i;

	json_array_foreach(seqs, i, one)
		gck_info("step %u.%u: commit %lld is forgotten: the store has newer ones, but not "
			 "this", step->job->id, step->id, (long long)json_integer_value(one));
	if (json_array_size(seqs))
		gck_core_note(core, gck_removal(step, seqs), false);
}

int gck_take_over_step(struct gck_core *core, const json_t *found, const json_t *slurm,
		       struct gck_error *err)
{
	struct gck_step *step;
	json_t *missing;
	struct found f;
	unsigned taken;

	if (parse_found(found, &f, err))
		return -1;
	step = enter(core, &f, slurm, err);
	if (!step)
		return -1;
	missing = missing_of(step, f.kept);
	taken = gck_take_over(core, step, f.commits, (uint32_t)f.restarts, NULL);
	if (taken)
		forget(core, step, missing);
	json_decref(missing);
	gck_take_over_numbers(core, step, f.commits);
	return (int)taken;
}
