/* SPDX-License-Identifier: Apache-2.0
 * The containers of what the coordinator knows: jobs, steps, commits. */
#include "coordinator/core/model/state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_USER_BYTES (256u << 20) /* of all steps of a user */

static void commit_free(struct gck_commit *c)
{
	json_decref(c->info);
	free(c);
}

static void step_free(struct gck_step *step)
{
	while (step->commits)
		gck_step_drop_commit(step, step->commits->seq);
	gck_step_clear_intent(step);
	gck_step_clear_failures(step);
	json_decref(step->fingerprint);
	free(step->store);
	free(step->options);
	free(step->exits);
	free(step->over);
	free(step);
}

static void job_free(struct gck_job *job)
{
	while (job->steps) {
		struct gck_step *step = job->steps;

		job->steps = step->next;
		step_free(step);
	}
	free(job->user);
	free(job->key);
	free(job->stays);
	json_decref(job->remnants);
	free(job);
}

void gck_state_clear(struct gck_state *s)
{
	while (s->count)
		gck_state_drop_job(s, s->index[s->count - 1]);
	free(s->index);
	s->index = NULL;
	s->capacity = 0;
}

/* The number of jobs with lower ids: the job's place in the index. */
static size_t place_of(const struct gck_state *s, uint32_t id)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->index[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void link_around(struct gck_state *s, size_t at, struct gck_job *next)
{
	if (at)
		s->index[at - 1]->next = next;
	else
		s->jobs = next;
}

void gck_state_drop_job(struct gck_state *s, struct gck_job *job)
{
	size_t at = place_of(s, job->id);

	link_around(s, at, job->next);
	s->count--;
	memmove(&s->index[at], &s->index[at + 1], (s->count - at) * sizeof *s->index);
	job_free(job);
}

struct gck_job *gck_state_job(const struct gck_state *s, uint32_t id)
{
	size_t at = place_of(s, id);

	return at < s->count && s->index[at]->id == id ? s->index[at] : NULL;
}

static struct gck_step *job_step(const struct gck_job *job, uint32_t id)
{
	struct gck_step *step = job ? job->steps : NULL;

	while (step && step->id != id)
		step = step->next;
	return step;
}

struct gck_step *gck_state_step(const struct gck_state *s, uint32_t job, uint32_t step)
{
	return job_step(gck_state_job(s, job), step);
}

struct gck_commit *gck_step_commit(const struct gck_step *step, uint32_t seq)
{
	struct gck_commit *c = step->commits;

	while (c && c->seq != seq)
		c = c->older;
	return c;
}

const struct gck_commit *gck_step_newest(const struct gck_step *step, uint32_t below)
{
	const struct gck_commit *c = step->commits;

	while (c && (c->abandoned || c->imported || c->aside || (below && c->seq > below)))
		c = c->older;
	return c;
}

bool gck_step_unswept(const struct gck_step *step)
{
	return step->removals != step->swept;
}

uint32_t gck_step_ended(const struct gck_step *step)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < step->ntasks; i++)
		n += step->exits[i] != GCK_NO_EXIT;
	return n;
}

static int grow_index(struct gck_state *s)
{
	size_t capacity = s->capacity ? 2 * s->capacity : 64;
	struct gck_job **index;

	if (s->count < s->capacity)
		return 0;
	index = reallocarray(s->index, capacity, sizeof *index);
	if (!index)
		return -1;
	s->index = index;
	s->capacity = capacity;
	return 0;
}

struct gck_job *gck_state_add_job(struct gck_state *s, uint32_t id)
{
	struct gck_job *job = gck_state_job(s, id);
	size_t at = place_of(s, id);

	if (job)
		return job;
	job = grow_index(s) ? NULL : calloc(1, sizeof *job);
	if (!job)
		return NULL;
	job->id = id;
	job->next = at < s->count ? s->index[at] : NULL;
	link_around(s, at, job);
	memmove(&s->index[at + 1], &s->index[at], (s->count - at) * sizeof *s->index);
	s->index[at] = job;
	s->count++;
	return job;
}

struct gck_step *gck_job_add_step(struct gck_job *job, uint32_t id)
{
	struct gck_step *step = job_step(job, id);
	struct gck_step **p = &job->steps;

	if (step)
		return step;
	step = calloc(1, sizeof *step);
	if (!step)
		return NULL;
	step->job = job;
	step->id = id;
	while (*p && (*p)->id < id)
		p = &(*p)->next;
	step->next = *p;
	*p = step;
	return step;
}

struct gck_commit *gck_step_add_commit(struct gck_step *step, uint32_t seq)
{
	struct gck_commit *c = gck_step_commit(step, seq);
	struct gck_commit **p = &step->commits;

	if (c)
		return c;
	c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->seq = seq;
	while (*p && (*p)->seq > seq)
		p = &(*p)->older;
	c->older = *p;
	*p = c;
	return c;
}

void gck_step_drop_commit(struct gck_step *step, uint32_t seq)
{
	struct gck_commit **p = &step->commits;

	while (*p && (*p)->seq != seq)
		p = &(*p)->older;
	if (*p) {
		struct gck_commit *c = *p;

		*p = c->older;
		commit_free(c);
	}
}

static struct gck_commit *worst_commit(const struct gck_step *step)
{
	struct gck_commit *worst = NULL;

	for (struct gck_commit *c = step->commits; c; c = c->older)
		if (!c->imported && (!worst || c->abandoned || !worst->abandoned))
			worst = c;
	return worst;
}

void gck_step_prune(struct gck_step *step, unsigned keep)
{
	unsigned n = 0;

	for (struct gck_commit *c = step->commits; c; c = c->older)
		n += !c->imported;
	for (; n > keep; n--)
		gck_step_drop_commit(step, worst_commit(step)->seq);
}

void gck_step_clear_intent(struct gck_step *step)
{
	json_decref(step->intent.info);
	json_decref(step->intent.import);
	memset(&step->intent, 0, sizeof step->intent);
}

void gck_step_give_up_intent(struct gck_step *step)
{
	if (step->intent.import)
		step->removals++;
	else if (!step->listed && step->intent.seq == step->last_seq && step->last_seq)
		step->last_seq--; /* it may have been committed */
	gck_step_clear_intent(step);
}

void gck_step_clear_failures(struct gck_step *step)
{
	for (struct gck_commit *c = step->commits; c; c = c->older)
		c->aside = false;
	free(step->failures.why);
	memset(&step->failures, 0, sizeof step->failures);
}

int gck_step_begin(struct gck_step *step, uint32_t restarts, uint32_t ntasks)
{
	int32_t *exits = malloc((ntasks ? ntasks : 1) * sizeof *exits);

	if (!exits)
		return -1;
	for (uint32_t i = 0; i < ntasks; i++)
		exits[i] = GCK_NO_EXIT;
	free(step->exits);
	free(step->over);
	step->exits = exits;
	step->over = NULL;
	step->asked = false;
	step->restarts = restarts;
	step->ntasks = ntasks;
	step->decided = step->finished = false;
	step->run_seq = step->restore_seq = 0;
	step->run_ms = 0;
	if (step->failures.held)
		gck_step_clear_failures(step);
	return 0;
}

/* ---- limits --------------------------------------------------------------------------------- */

static size_t bytes_of_step(const struct gck_step *step)
{
	size_t bytes = step->bytes;

	for (const struct gck_commit *c = step->commits; c; c = c->older)
		bytes += sizeof *c;
	return bytes;
}

static size_t bytes_of_user(const struct gck_state *s, uid_t uid)
{
	size_t bytes = 0;

	for (const struct gck_job *job = s->jobs; job; job = job->next)
		for (const struct gck_step *step = job->steps; step; step = step->next)
			bytes += step->uid == uid ? bytes_of_step(step) : 0;
	return bytes;
}

int gck_state_check_user(const struct gck_state *s, uid_t uid, struct gck_error *err)
{
	if (bytes_of_user(s, uid) < MAX_USER_BYTES)
		return 0;
	return gck_fail(err, E2BIG,
			"user %u has too many steps with --gpu-ckpt: the coordinator keeps at most "
			"%u MiB about them; no more are taken",
			(unsigned)uid, MAX_USER_BYTES >> 20);
}
