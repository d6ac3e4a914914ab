/* SPDX-License-Identifier: Apache-2.0
 * A job is given back to Slurm. */
#include "coordinator/core/actions/give_back.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

struct asked {
	struct gck_core *core;
	uint32_t job, step, start;
	bool hold;
	gck_given_fn *done;
	char why[960];
};

static void note_held(const struct asked *a, const struct gck_step *step)
{
	json_t *r = gck_record(step, "held");

	json_object_set_new(r, "time", json_integer(a->core->world->now_ms() / 1000));
	json_object_set_new(r, "why", json_string(a->why));
	gck_core_note(a->core, r, true);
}

static enum gck_given given(const struct asked *a, const struct gck_step *step)
{
	if (!a->hold) {
		gck_warn("job %u is requeued, to try again", a->job);
		return GCK_GIVEN;
	}
	gck_error_log("job %u is requeued and held: %s; `scontrol release %u` lets it try again",
		      a->job, a->why, a->job);
	note_held(a, step);
	return GCK_GIVEN;
}

static enum gck_given not_given(const struct asked *a, const struct gck_slurm_answer *answer)
{
	if (gck_slurm_refused(answer)) {
		gck_error_log("job %u cannot be requeued (%s); its step ends", a->job,
			      answer->error);
		return GCK_NOT_GIVEN;
	}
	gck_warn("job %u cannot be requeued yet: %s", a->job, answer->error);
	return GCK_NOT_YET;
}

static void on_answer(void *arg, const struct gck_slurm_answer *answer)
{
	struct asked *a = arg;
	struct gck_step *step = gck_state_step(&a->core->state, a->job, a->step);

	if (step && step->job->restarts == a->start)
		a->done(a->core, step, answer->ok ? given(a, step) : not_given(a, answer));
	free(a);
}

void gck_give_back(struct gck_core *core, const struct gck_step *step, bool hold, const char *why,
		   gck_given_fn *done)
{
	const struct gck_job *job = step->job;
	struct asked *a = malloc(sizeof *a);

	if (!a)
		return;
	*a = (struct asked){core, job->id, step->id, job->restarts, hold, done, ""};
	snprintf(a->why, sizeof a->why, "%s", why);
	gck_core_requeue(core, job, hold, a->why, on_answer, a);
}
