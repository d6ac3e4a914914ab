/* SPDX-License-Identifier: Apache-2.0
 * Imports: parsed, checked, and journaled. */
#include "coordinator/core/retention/import.h"

#include <string.h>

#include "common/base/log.h"
#include "common/base/s3_url.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/model/record.h"
#include "coordinator/core/retention/expire.h"
#include "storage/base/hash.h"
#include "storage/s3/presign.h"

/* Later checkpoints count on from this number, even those of another user's job with that id. */
#define SEQ_MOST INT32_MAX

#define MAX_DIRECTORIES 4096 /* checkpoints whose objects one image has */

/* ---- parsing ------------------------------------------------------------------------------- */

/* Directories of earlier checkpoints, and its own. */
static int check_directories(const struct gck_import *i, struct gck_error *err)
{
	size_t n = json_array_size(i->directories), k;
	json_t *one;

	if (n < 1 || n > MAX_DIRECTORIES)
		return gck_fail(err, E2BIG,
				"an image with objects of %zu checkpoints is not imported: at "
				"least 1, at most %d",
				n, MAX_DIRECTORIES);
	json_array_foreach(i->directories, k, one) {
		const char *name = json_string_value(one);
		uint32_t seq = 0;

		if (!name || !*name || gck_s3_name_check(GCK_SIGN_LIST, name, &seq, NULL) ||
		    seq > i->seq)
			return gck_fail(err, EINVAL,
					"\"%.100s\" is not a directory of checkpoint %u",
					name ? name : "", i->seq);
	}
	return 0;
}

int gck_import_parse(const json_t *body, struct gck_import *i, struct gck_error *err)
{
	json_int_t job, step, seq, ranks, stored;
	json_error_t bad;

	memset(i, 0, sizeof *i);
	if (json_unpack_ex((json_t *)body, &bad, 0, "{s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:o}",
			   "job", &job, "step", &step, "seq", &seq, "ranks", &ranks, "stored",
			   &stored, "store", &i->store, "directories", &i->directories,
			   "fingerprint", &i->fingerprint))
		return gck_fail(err, EINVAL, "import is malformed: %s", bad.text);
	if (job < 1 || job > UINT32_MAX || step < 0 || step > UINT32_MAX || seq < 1 ||
	    seq > SEQ_MOST || ranks < 1 || ranks > GCK_MAX_TASKS || stored < 0)
		return gck_fail(err, ERANGE, "import has a number out of range");
	i->job = (uint32_t)job;
	i->step = (uint32_t)step;
	i->seq = (uint32_t)seq;
	i->ranks = (uint32_t)ranks;
	i->stored = (uint64_t)stored;
	if ((!json_is_object(i->fingerprint) && !json_is_null(i->fingerprint)) ||
	    json_dumpb(i->fingerprint, NULL, 0, JSON_COMPACT) > GCK_FINGERPRINT_MAX)
		return gck_fail(err, EINVAL, "import has no fingerprint, or one that is too long");
	return check_directories(i, err);
}

/* ---- may it? ------------------------------------------------------------------------------- */

bool gck_import_asks(const struct gck_core *core, const struct gck_import *i)
{
	const struct gck_job *job = gck_state_job(&core->state, i->job);

	return !job || job->gone;
}

static int check_store(const struct gck_core *core, const struct gck_import *i,
		       struct gck_error *err)
{
	if (!gck_s3_is(i->store))
		return gck_fail(err, EINVAL,
				"store=%.200s is no object store: what is in others is their "
				"users' alone",
				i->store);
	if (gck_conf_allows(core->conf, i->store, err))
		return -1;
	return *core->conf->cluster ? 0
				    : gck_fail(err, EAGAIN,
					       "Slurm has not told the cluster's name yet: try "
					       "again");
}

/* All commits of a step are in one store. */
static int check_place(const struct gck_step *step, const struct gck_import *i,
		       struct gck_error *err)
{
	if (!strcmp(step->store, i->store))
		return 0;
	if (!step->job->gone)
		return gck_fail(err, EBUSY,
				"step %u.%u has store=%s: import into that, or when Slurm has "
				"forgotten the job (MinJobAge)",
				i->job, i->step, step->store);
	if (step->commits)
		return gck_fail(err, EBUSY,
				"step %u.%u has commits in store=%s, and all of a step lies in one "
				"store: remove those (gpuckpt remove), or import into that",
				i->job, i->step, step->store);
	return 0;
}

static int check_step(const struct gck_step *step, const struct gck_import *i,
		      struct gck_error *err)
{
	if (gck_step_commit(step, i->seq))
		return gck_fail(err, EEXIST,
				"step %u.%u has a commit %u already (gpuckpt list); it is not "
				"replaced",
				i->job, i->step, i->seq);
	if (step->live && step->live->phase != GCK_OVER)
		return gck_fail(err, EBUSY, "step %u.%u runs: import when it has ended", i->job,
				i->step);
	if (step->intent.import)
		return gck_fail(err, EBUSY, "checkpoint %u of step %u.%u is being imported",
				step->intent.seq, i->job, i->step);
	/* An import would replace the open intent, and the job's next start would not look for its
	 * commit. */
	if (step->intent.seq && !step->job->gone)
		return gck_fail(err, EBUSY,
				"step %u.%u ended while checkpoint %u was committed, and whether "
				"it was is found out when the job starts again: import after that, "
				"or when Slurm has forgotten the job (MinJobAge)",
				i->job, i->step, step->intent.seq);
	/* A sweeper uses the list of commits in its order, which would lack the import. */
	if (gck_step_unswept(step))
		return gck_fail(err, EBUSY,
				"what was removed of step %u.%u is still being removed from its "
				"store: try again in a few minutes, or %d after an import of it "
				"was killed",
				i->job, i->step, GCK_IMPORT_SILENCE_S / 60);
	return check_place(step, i, err);
}

int gck_import_check(const struct gck_core *core, const struct gck_import *i, uid_t uid,
		     struct gck_error *err)
{
	const struct gck_job *job = gck_state_job(&core->state, i->job);
	const struct gck_step *step = gck_state_step(&core->state, i->job, i->step);

	if (check_store(core, i, err))
		return -1;
	if (job && job->uid != uid)
		return gck_fail(err, EACCES,
				"job %u is not yours on this cluster: its number is taken here, so "
				"its image can be imported into a store=file: only",
				i->job);
	if ((step && check_step(step, i, err)) || gck_quota_check(core, uid, i->stored, err))
		return -1;
	return gck_state_check_user(&core->state, uid, err);
}

/* ---- its records --------------------------------------------------------------------------- */

/* Slurm does not know the job: a later job with that id will be another one. */
static int journal_job(struct gck_core *core, const struct gck_import *i, uid_t uid,
		       const char *user, struct gck_error *err)
{
	return gck_core_record(core,
			       json_pack("{s:s, s:I, s:I, s:s, s:i, s:i, s:b, s:b}", "t", "job",
					 "job", (json_int_t)i->job, "uid", (json_int_t)uid, "user",
					 user, "restarts", 0, "submit", 0, "batch", 0, "gone", 1),
			       false, err);
}

/* Slurm knows the job, which may still run that step: the fingerprint is then that program's. */
static int journal_step(struct gck_core *core, const struct gck_job *job,
			const struct gck_import *i, struct gck_error *err)
{
	json_t *null = json_null();

	return gck_core_record(core,
			       json_pack("{s:s, s:I, s:I, s:I, s:i, s:I, s:s, s:s, s:O}", "t",
					 "step", "job", (json_int_t)i->job, "step",
					 (json_int_t)i->step, "restarts", (json_int_t)job->restarts,
					 "nodes", 1, "ntasks", (json_int_t)i->ranks, "store",
					 i->store, "options", "", "fingerprint",
					 job->gone ? i->fingerprint : null),
			       false, err);
}

static int journal_intent(struct gck_core *core, const struct gck_step *step,
			  const struct gck_import *i, struct gck_error *err)
{
	json_t *r = gck_record_seq(step, "intent", i->seq);

	json_object_set_new(r, "nonce", json_string(""));
	json_object_set_new(r, "held", json_false());
	json_object_set(r, "import", (json_t *)i->directories);
	json_object_set_new(r, "info",
			    json_pack("{s:s, s:b, s:I, s:I}", "reason", "import", "imported", 1,
				      "ranks", (json_int_t)i->ranks, "stored",
				      (json_int_t)i->stored));
	return gck_core_record(core, r, true, err);
}

int gck_import_begin(struct gck_core *core, const struct gck_import *i, uid_t uid, const char *user,
		     struct gck_error *err)
{
	const struct gck_step *step = gck_state_step(&core->state, i->job, i->step);

	if (!gck_state_job(&core->state, i->job) && journal_job(core, i, uid, user, err))
		return -1;
	if ((!step || strcmp(step->store, i->store)) &&
	    journal_step(core, gck_state_job(&core->state, i->job), i, err))
		return -1;
	step = gck_state_step(&core->state, i->job, i->step);
	if (journal_intent(core, step, i, err))
		return -1;
	gck_info("step %u.%u: checkpoint %u is imported into %s by user %u", i->job, i->step,
		 i->seq, i->store, (unsigned)uid);
	return 0;
}

static struct gck_step *find(const struct gck_state *s, uint32_t job, uint32_t step, uint32_t seq)
{
	struct gck_step *found = gck_state_step(s, job, step);

	return found && found->intent.import && found->intent.seq == seq ? found : NULL;
}

/* The age of an imported commit counts from now. */
int gck_import_end(struct gck_core *core, uint32_t job, uint32_t id, uint32_t seq, const char *hash,
		   struct gck_error *err)
{
	const struct gck_step *step = find(&core->state, job, id, seq);
	struct gck_hash parsed;
	json_t *r;

	if (!step)
		return gck_fail(err, ESTALE,
				"the import of checkpoint %u of step %u.%u was given up: the step "
				"has begun to run",
				seq, job, id);
	if (gck_hash_parse(hash, &parsed, err))
		return -1;
	r = gck_record_seq(step, "commit", seq);
	json_object_set_new(r, "restarts", json_integer(step->restarts));
	json_object_set_new(r, "hash", json_string(hash));
	json_object_set_new(r, "time", json_integer(core->world->now_ms() / 1000));
	json_object_set(r, "info", step->intent.info);
	if (gck_core_record(core, r, true, err))
		return -1;
	gck_info("step %u.%u: commit %u was imported", job, id, seq);
	return 0;
}

void gck_import_abort(struct gck_core *core, uint32_t job, uint32_t id, uint32_t seq)
{
	const struct gck_step *step = find(&core->state, job, id, seq);

	if (step)
		gck_core_note(core, gck_record_seq(step, "abort", seq), true);
}

static int64_t landing_ms(int64_t now_ms)
{
	return now_ms + GCK_IMPORT_SILENCE_S * INT64_C(1000);
}

void gck_import_lost(struct gck_core *core, uint32_t job, uint32_t id, uint32_t seq)
{
	struct gck_step *step = gck_state_step(&core->state, job, id);

	gck_import_abort(core, job, id, seq);
	if (step)
		step->landing_ms = landing_ms(core->world->now_ms());
}

static void give_up(struct gck_state *s, struct gck_step *step, int64_t now_ms)
{
	json_t *r = gck_record_seq(step, "abort", step->intent.seq);

	gck_info("step %u.%u: the import of checkpoint %u is given up", step->job->id, step->id,
		 step->intent.seq);
	(void)!gck_record_apply(s, r, NULL); /* an open intent can always be given up */
	json_decref(r);
	step->landing_ms = landing_ms(now_ms);
}

void gck_import_lost_all(struct gck_state *s, int64_t now_ms)
{
	for (const struct gck_job *job = s->jobs; job; job = job->next)
		for (struct gck_step *step = job->steps; step; step = step->next)
			if (step->intent.import)
				give_up(s, step, now_ms);
}
