/* SPDX-License-Identifier: Apache-2.0
 * Finding out whether a step is finished. */
#include "coordinator/core/actions/completion.h"

#include <stdlib.h>

#include "common/base/log.h"

struct question {
	struct gck_core *core;
	uint32_t job, step, restarts;
};

static bool all_succeeded(const struct gck_step *step)
{
	for (uint32_t i = 0; i < step->ntasks; i++)
		if (step->exits[i] != 0)
			return false;
	return true;
}

static void on_job_state(void *arg, const struct gck_slurm_answer *answer)
{
	struct question *q = arg;
	struct gck_step *step = gck_state_step(&q->core->state, q->job, q->step);
	json_int_t restarts = json_integer_value(json_object_get(answer->data, "restarts"));

	if (step) {
		step->asking = false;
		step->asked = answer->ok || answer->code == ENOENT;
	}
	/* Without an answer it is not finished: a restart then goes back to its last commit. */
	if (step && !step->finished && step->restarts == q->restarts && answer->ok &&
	    restarts == q->restarts && json_is_true(json_object_get(answer->data, "ends_itself")) &&
	    all_succeeded(step)) {
		gck_info("step %u.%u is finished", step->job->id, step->id);
		gck_core_note(q->core, gck_record(step, "finished"), true);
	}
	free(q);
}

void gck_finish_check(struct gck_core *core, struct gck_step *step)
{
	struct question *q;

	if (step->finished || step->asking || step->asked || !all_succeeded(step))
		return;
	q = malloc(sizeof *q);
	if (!q)
		return;
	*q = (struct question){core, step->job->id, step->id, step->restarts};
	step->asking = true;
	core->world->slurm(core, json_pack("{s:s, s:I}", "op", "job", "job", (json_int_t)q->job),
			   on_job_state, q);
}

void gck_finish_check_all(struct gck_core *core)
{
	for (struct gck_job *job = core->state.jobs; job; job = job->next)
		for (struct gck_step *step = job->gone ? NULL : job->steps; step; step = step->next)
			gck_finish_check(core, step);
}
