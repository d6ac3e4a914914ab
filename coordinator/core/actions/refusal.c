/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/actions/refusal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/actions/failures.h"
#include "coordinator/core/actions/restart.h"

struct asked {
	struct gck_core *core;
	uint32_t job, step, start;
	char why[960];
};

static const char *why_of(const json_t *verdict)
{
	return json_string_value(json_object_get(verdict, "why"));
}

static void answered(struct asked *a, struct gck_step *step, const struct gck_slurm_answer *answer)
{
	struct gck_job *job = step->job;

	if (answer->ok) {
		gck_error_log("job %u is requeued and held: %s", job->id, a->why);
		gck_failure_held(a->core, step, a->why);
	} else if (gck_slurm_refused(answer)) {
		gck_error_log("job %u cannot be requeued (%s); its step ends", job->id,
			      answer->error);
	} else {
		gck_warn("job %u cannot be requeued yet: %s", job->id, answer->error);
		job->refusal = GCK_REFUSAL_NEW; /* its agents ask again */
		return;
	}
	job->refusal = GCK_REFUSAL_OVER;
}

static void on_answer(void *arg, const struct gck_slurm_answer *answer)
{
	struct asked *a = arg;
	struct gck_step *step = gck_state_step(&a->core->state, a->job, a->step);

	if (step && step->job->refused_start == a->start &&
	    step->job->refusal == GCK_REFUSAL_ASKED)
		answered(a, step, answer);
	free(a);
}

static void ask(struct gck_core *core, const struct gck_step *step, const char *why)
{
	struct gck_job *job = step->job;
	struct asked *a = malloc(sizeof *a);

	if (!a)
		return;
	*a = (struct asked){core, job->id, step->id, job->restarts, ""};
	snprintf(a->why, sizeof a->why, "%s", why);
	job->refusal = GCK_REFUSAL_ASKED;
	gck_core_requeue(core, job, true, a->why, on_answer, a);
}

/* Only after a welcome does the agent tell it. Its step is soon ended by Slurm. */
static void tell(struct gck_core *core, const struct gck_step *step, struct gck_agent *agent,
		 const char *why)
{
	json_t *wait = gck_welcome(core, step, "wait");
	uint32_t job = step->job->id;
	json_t *say = json_pack("{s:s, s:o}", "op", "say", "text", json_sprintf(
					"step %u.%u is not started, and job %u is to be requeued "
					"and held: %s; `scontrol release %u` lets it try again",
					job, step->id, job, why, job));

	json_object_set_new(wait, "why", json_string("the job is to be requeued and held"));
	core->world->send(agent, wait);
	core->world->send(agent, say);
	json_decref(wait);
	json_decref(say);
}

bool gck_refusal_holds(struct gck_core *core, struct gck_step *former, struct gck_agent *agent,
		       const json_t *verdict)
{
	struct gck_job *job = former->job;
	const char *action = json_string_value(json_object_get(verdict, "action"));

	if (!job->batch || !job->restarts || !action || strcmp(action, "refuse"))
		return false;
	if (job->refused_start != job->restarts)
		job->refusal = GCK_REFUSAL_NEW;
	job->refused_start = job->restarts;
	if (job->refusal == GCK_REFUSAL_NEW) {
		tell(core, former, agent, why_of(verdict));
		ask(core, former, why_of(verdict));
	}
	return job->refusal == GCK_REFUSAL_ASKED;
}
