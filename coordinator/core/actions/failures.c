/* SPDX-License-Identifier: Apache-2.0
 * Restarts that fail. */
#include "coordinator/core/actions/failures.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "common/wire/restart_code.h"
#include "coordinator/core/actions/give_back.h"
#include "coordinator/core/actions/restart.h"

/* ---- counting ------------------------------------------------------------------------------ */

/* A restart from seq has failed; own: for a reason of the commit's own. */
static void count(struct gck_core *core, struct gck_step *step, uint32_t seq, bool own,
		  const char *why)
{
	const struct gck_failures *f = &step->failures;
	uint32_t limit = core->conf->restart_failures, all = f->all + 1, same = f->same;
	const struct gck_commit *before = gck_restart_commit_before(step, seq);
	bool over, spent;

	if (own)
		same = seq == f->seq ? same + 1 : 1;
	over = own && same >= limit;
	spent = all >= 2 * limit || (over && !before);
	step->live->failed = true;
	gck_warn("step %u.%u: restart %u from commit %u has failed: %s%s", step->job->id, step->id,
		 all, seq, why, spent ? "; the job will be held" :
		 over ? "; the next one is from the commit before" : "");
	gck_core_note(core,
		      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:s}", "t", "failed",
				"job", (json_int_t)step->job->id, "step", (json_int_t)step->id,
				"seq", (json_int_t)(own ? seq : f->seq), "all", (json_int_t)all,
				"same", (json_int_t)same, "spent", spent, "aside",
				over && before, "time",
				(json_int_t)(core->world->now_ms() / 1000), "why", why),
		      true);
}

bool gck_failure_note(struct gck_core *core, struct gck_step *step)
{
	struct gck_live *live = step->live;

	enum gck_blame blame = gck_restart_blame(live->error.code);

	if (blame == GCK_BLAME_COMMIT)
		return false;
	if (!live->failed)
		count(core, step, live->plan.seq, blame == GCK_BLAME_PROCESS, live->error.text);
	return !step->failures.spent;
}

/* ---- a step that ends soon after its restart ------------------------------------------------ */

static bool is_soon(const struct gck_core *core, int64_t since_ms)
{
	return since_ms && core->world->now_ms() - since_ms <
				   (int64_t)gck_ms(core->conf->restart_failure_s);
}

/* Somebody else ends the step, or a node is lost and its peers end. Slurm ends a step by SIGTERM,
 * which ends its agents as well, so that they report no exits. (A step that gpuckptd ends has a new
 * commit.) */
static bool is_ended_by_others(const struct gck_step *step, int status)
{
	return gck_live_missing(step->live) ||
	       (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void describe(struct gck_live *live, unsigned rank, int status, double s)
{
	if (WIFSIGNALED(status))
		snprintf(live->crash, sizeof live->crash,
			 "rank %u was killed by signal %d (%s) %.0f s after the restart", rank,
			 WTERMSIG(status), strsignal(WTERMSIG(status)), s);
	else
		snprintf(live->crash, sizeof live->crash,
			 "rank %u ended with status %d %.0f s after the restart", rank,
			 WEXITSTATUS(status), s);
}

/* Only the first such rank: its end may have ended the others. */
void gck_failure_rank_ended(struct gck_core *core, struct gck_step *step, unsigned rank, int status)
{
	struct gck_live *live = step->live;

	if (!status || live->bad_end)
		return;
	live->bad_end = true;
	if (!step->run_seq || !is_soon(core, step->run_ms) || is_ended_by_others(step, status))
		return;
	live->crash_ms = core->world->now_ms();
	describe(live, rank, status, (double)(live->crash_ms - step->run_ms) / 1e3);
}

static bool has_come_further(const struct gck_step *step)
{
	const struct gck_commit *newest = gck_step_newest(step, 0);

	return newest && newest->restarts == step->restarts;
}

void gck_failure_agent_left(struct gck_core *core, struct gck_step *step)
{
	const struct gck_live *live = step->live;

	for (uint32_t i = 0; i < live->nnodes; i++)
		if (!live->nodes[i].over && live->nodes[i].agent)
			return;
	if (!live->failed && is_soon(core, live->crash_ms) && !has_come_further(step))
		count(core, step, step->run_seq, true, live->crash);
}

/* ---- a step that is another one than before -------------------------------------------------- */

static const char *why_of(const json_t *verdict)
{
	return json_string_value(json_object_get(verdict, "why"));
}

/* If Slurm did not answer, its agents ask again. */
static void on_given_back(struct gck_core *core, struct gck_step *step, enum gck_given given)
{
	struct gck_job *job = step->job;

	(void)core;
	if (job->refusal == GCK_REFUSAL_ASKED)
		job->refusal = given == GCK_NOT_YET ? GCK_REFUSAL_NEW : GCK_REFUSAL_OVER;
}

/* Only after a welcome does the agent tell it. Its step is soon ended by Slurm. */
static void tell(struct gck_core *core, const struct gck_step *step, struct gck_agent *agent,
		 uint32_t start, bool hold, const char *why)
{
	json_t *wait = gck_welcome(core, step, "wait");
	uint32_t job = step->job->id;
	json_t *reason = !hold ? json_string(why)
			       : json_sprintf("%s; `scontrol release %u` lets it try again", why,
					      job);
	json_t *say = json_pack("{s:s, s:o}", "op", "say", "text", json_sprintf(
				"step %u.%u is not started, and job %u is to be requeued%s: %s",
				job, step->id, job, hold ? " and held" : "",
				json_string_value(reason)));

	json_decref(reason);
	json_object_set_new(wait, "restarts", json_integer(start));
	json_object_set_new(wait, "why", json_sprintf("the job is to be requeued%s",
						      hold ? " and held" : ""));
	core->world->send(agent, wait);
	core->world->send(agent, say);
	json_decref(wait);
	json_decref(say);
}

/* This start of the job, by Slurm's count, is not to run. Once a start; true until Slurm has
 * answered. */
static bool give_back(struct gck_core *core, const struct gck_step *step, struct gck_agent *agent,
		      uint32_t start, bool hold, const char *why)
{
	struct gck_job *job = step->job;

	if (job->refused_start != start)
		job->refusal = GCK_REFUSAL_NEW;
	job->refused_start = start;
	if (job->refusal == GCK_REFUSAL_NEW) {
		tell(core, step, agent, start, hold, why);
		job->refusal = GCK_REFUSAL_ASKED;
		gck_give_back(core, step, hold, why, on_given_back);
	}
	return job->refusal == GCK_REFUSAL_ASKED;
}

bool gck_failure_refused(struct gck_core *core, struct gck_step *former, struct gck_agent *agent,
			 const json_t *verdict)
{
	const char *action = json_string_value(json_object_get(verdict, "action"));

	return former->job->batch && action && !strcmp(action, "refuse") &&
	       give_back(core, former, agent, former->job->restarts, true, why_of(verdict));
}

bool gck_failure_counted_again(struct gck_core *core, const struct gck_step *step,
			       struct gck_agent *agent, uint32_t start)
{
	char why[160];

	snprintf(why, sizeof why, "Slurm counts its start %u a second time, as a slurmctld does "
		 "that has lost its last state", start);
	return give_back(core, step, agent, start, false, why);
}
