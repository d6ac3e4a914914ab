/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/core/retention/needed.h"

#include <stdlib.h>

#include "coordinator/core/model/live.h"

static bool may_be_restarted(const struct gck_step *s)
{
	return !s->job->gone && !s->finished;
}

/* It is tried again once its job was held and released. */
static bool is_aside(const struct gck_step *s, uint32_t seq)
{
	const struct gck_commit *c = s->failures.all ? gck_step_commit(s, seq) : NULL;

	return c && c->aside && !c->abandoned;
}

/* Would the step itself be restarted from this commit, or does it run from it? */
static bool needs_own(const struct gck_step *s, uint32_t seq)
{
	const struct gck_commit *newest = gck_step_newest(s, 0);

	if (s->live && s->live->plan.seq == seq && s->live->plan.job == s->job->id &&
	    s->live->plan.step == s->id)
		return true;
	return may_be_restarted(s) &&
	       ((newest && newest->seq == seq) || is_aside(s, seq) ||
		(!s->decided && s->restore_seq == seq) ||
		(s->from_seq == seq && s->from_job == 0));
}

/* The commit that the step runs from, or will: restart=JOB:SEQ counts until the step has its
 * own. */
static bool needs_other(const struct gck_step *s, struct gck_wanted *w)
{
	const struct gck_live *live = s->live;

	if (live && live->plan.seq && live->plan.job != s->job->id)
		*w = (struct gck_wanted){s->job->uid, live->plan.job, live->plan.step,
					 live->plan.seq};
	else if (may_be_restarted(s) && s->from_job && !gck_step_newest(s, 0))
		*w = (struct gck_wanted){s->job->uid, s->from_job, s->id, s->from_seq};
	else
		return false;
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct gck_wanted *v = a, *w = b;

	if (v->uid != w->uid)
		return v->uid < w->uid ? -1 : 1;
	if (v->job != w->job)
		return v->job < w->job ? -1 : 1;
	if (v->step != w->step)
		return v->step < w->step ? -1 : 1;
	return v->seq < w->seq ? -1 : v->seq > w->seq;
}

static struct gck_wanted place_of(const struct gck_step *step, uint32_t seq)
{
	return (struct gck_wanted){step->job->uid, step->job->id, step->id, seq};
}

const struct gck_step *gck_commit_needed(const struct gck_core *core, const struct gck_step *step,
					 uint32_t seq)
{
	const struct gck_wanted it = place_of(step, seq);
	struct gck_wanted w;

	if (needs_own(step, seq))
		return step;
	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			if (needs_other(s, &w) && by_place(&w, &it) == 0)
				return s;
	return NULL;
}

void gck_needed_free(struct gck_needed *n)
{
	free(n->v);
	*n = (struct gck_needed){0};
}

static size_t collect(const struct gck_core *core, struct gck_wanted *v)
{
	struct gck_wanted w;
	size_t n = 0;

	for (const struct gck_job *j = core->state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			n += needs_other(s, v ? &v[n] : &w);
	return n;
}

int gck_needed_load(struct gck_needed *n, const struct gck_core *core)
{
	n->n = collect(core, NULL);
	n->v = calloc(n->n + 1, sizeof *n->v);
	if (!n->v)
		return -1;
	collect(core, n->v);
	qsort(n->v, n->n, sizeof *n->v, by_place);
	return 0;
}

bool gck_needed_has(const struct gck_needed *n, const struct gck_step *step, uint32_t seq)
{
	const struct gck_wanted it = place_of(step, seq);

	return needs_own(step, seq) || bsearch(&it, n->v, n->n, sizeof it, by_place);
}
