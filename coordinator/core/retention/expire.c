/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/retention/expire.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/core/retention/needed.h"
#include "coordinator/core/retention/removal.h"

#define EVERYBODY ((uid_t)-1)

/* ---- what goes ----------------------------------------------------------------------------- */

struct candidate {
	const struct gck_step *step;
	const struct gck_commit *commit;
	const char *why; /* forget it; NULL: keep it */
};

static bool is_of(const struct gck_step *s, uid_t uid)
{
	return uid == EVERYBODY || s->uid == uid;
}

static size_t commits_of(const struct gck_core *core, uid_t uid, struct candidate *out)
{
	size_t n = 0;

	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			for (const struct gck_commit *c = is_of(s, uid) ? s->commits : NULL; c;
			     c = c->older, n++)
				if (out)
					out[n] = (struct candidate){.step = s, .commit = c};
	return n;
}

static int by_step(const void *a, const void *b)
{
	const struct gck_step *s = ((const struct candidate *)a)->step;
	const struct gck_step *t = ((const struct candidate *)b)->step;

	if (s->job->id != t->job->id)
		return s->job->id < t->job->id ? -1 : 1;
	return s->id < t->id ? -1 : s->id > t->id;
}

/* By user; of a user, abandoned ones first, then by age. */
static int by_turn(const void *a, const void *b)
{
	const struct candidate *c = a, *d = b;

	if (c->step->uid != d->step->uid)
		return c->step->uid < d->step->uid ? -1 : 1;
	if (c->commit->abandoned != d->commit->abandoned)
		return c->commit->abandoned ? -1 : 1;
	if (c->commit->time != d->commit->time)
		return c->commit->time < d->commit->time ? -1 : 1;
	if (c->commit->seq != d->commit->seq)
		return c->commit->seq < d->commit->seq ? -1 : 1;
	return by_step(a, b);
}

/* Commits older than this time have expired. */
static int64_t oldest(const struct gck_core *core)
{
	return core->conf->keep_age_s ? core->world->now_ms() / 1000 - core->conf->keep_age_s
				      : INT64_MIN;
}

static void mark_old(const struct gck_core *core, const struct gck_needed *needed,
		     struct candidate *c, size_t n)
{
	int64_t since = oldest(core);

	for (size_t i = 0; i < n; i++)
		if (c[i].commit->time < since &&
		    !gck_needed_has(needed, c[i].step, c[i].commit->seq))
			c[i].why = "it is older than KeepAge";
}

/* Of one user. */
static void mark_above(uint64_t quota, const struct gck_needed *needed, struct candidate *c,
		       size_t n)
{
	uint64_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += c[i].why ? 0 : c[i].commit->stored;
	for (size_t i = 0; used > quota && i < n; i++)
		if (!c[i].why && !gck_needed_has(needed, c[i].step, c[i].commit->seq)) {
			c[i].why = "its user's images are above Quota";
			used -= c[i].commit->stored;
		}
}

static size_t same_user(const struct candidate *c, size_t n)
{
	size_t i = 0;

	while (i < n && c[i].step->uid == c->step->uid)
		i++;
	return i;
}

/* The commits of one step to forget; NULL: none. */
static json_t *removal(const struct candidate *c, size_t n)
{
	const struct gck_step *step = c->step;
	json_t *seqs = json_array(), *r = NULL;

	for (size_t i = 0; i < n; i++)
		if (c[i].why) {
			gck_info("step %u.%u: checkpoint %u is removed: %s", step->job->id,
				 step->id, c[i].commit->seq, c[i].why);
			json_array_append_new(seqs, json_integer(c[i].commit->seq));
		}
	if (json_array_size(seqs))
		r = gck_removal(step, seqs);
	json_decref(seqs);
	return r;
}

/* One record for each step; it is on the disk before any removal is ordered. */
static void forget(struct gck_core *core, struct candidate *c, size_t n)
{
	json_t *last = NULL;

	qsort(c, n, sizeof *c, by_step);
	for (size_t i = 0, m; i < n; i += m) {
		json_t *r;

		for (m = 1; i + m < n && c[i + m].step == c[i].step; m++)
			;
		r = removal(c + i, m);
		if (r && last)
			gck_core_note(core, last, false);
		last = r ? r : last;
	}
	if (last)
		gck_core_note(core, last, true);
}

static void expire(struct gck_core *core, uid_t uid)
{
	size_t n = commits_of(core, uid, NULL);
	struct candidate *c = calloc(n + 1, sizeof *c);
	struct gck_needed needed = {0};

	if (c && gck_needed_load(&needed, core) == 0) {
		commits_of(core, uid, c);
		qsort(c, n, sizeof *c, by_turn);
		mark_old(core, &needed, c, n);
		for (size_t i = 0, m; core->conf->quota && i < n; i += m) {
			m = same_user(c + i, n - i);
			mark_above(core->conf->quota, &needed, c + i, m);
		}
		forget(core, c, n);
	}
	gck_needed_free(&needed);
	free(c);
}

/* ---- quota --------------------------------------------------------------------------------- */

static uint64_t used_by(const struct gck_core *core, uid_t uid)
{
	uint64_t sum = 0;

	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			for (const struct gck_commit *c = is_of(s, uid) ? s->commits : NULL; c;
			     c = c->older)
				sum += c->stored;
	return sum;
}

/* The user name is known from a job; a user who imports may have none. */
static const char *name_of(const struct gck_core *core, uid_t uid)
{
	const struct gck_job *j = core->state.jobs;

	while (j && j->uid != uid)
		j = j->next;
	return j ? j->user : "(without jobs)";
}

int gck_quota_check(const struct gck_core *core, uid_t uid, uint64_t more, struct gck_error *err)
{
	uint64_t quota = core->conf->quota, used = quota ? used_by(core, uid) : 0;

	if (!quota || (used <= quota && more <= quota - used))
		return 0;
	return gck_fail(
		err, EDQUOT,
		"images of user %s take %llu MiB%s, Quota of gpuckpt.conf is %llu: remove what is "
		"not needed (gpuckpt list, gpuckpt remove), or end jobs: what they would be "
		"restarted from goes when Slurm forgets them (MinJobAge of slurm.conf)",
		name_of(core, uid), (unsigned long long)(used + more) >> 20,
		more ? " with this one" : "", (unsigned long long)quota >> 20);
}

/* ---- the whole ----------------------------------------------------------------------------- */

void gck_expire(struct gck_core *core)
{
	if (core->conf->keep_age_s || core->conf->quota)
		expire(core, EVERYBODY);
}

static bool has_old(const struct gck_core *core, uid_t uid)
{
	int64_t since = oldest(core);

	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			for (const struct gck_commit *c = is_of(s, uid) ? s->commits : NULL; c;
			     c = c->older)
				if (c->time < since)
					return true;
	return false;
}

/* Called with each commit. Mostly nothing has expired, which needs no sorting to see. */
void gck_expire_user(struct gck_core *core, uid_t uid)
{
	uint64_t quota = core->conf->quota;

	if (has_old(core, uid) || (quota && used_by(core, uid) > quota))
		expire(core, uid);
}
