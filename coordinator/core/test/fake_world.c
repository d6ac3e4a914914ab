/* SPDX-License-Identifier: Apache-2.0
 * The fake world's own parts: journal, timers, Slurm, crash. The agents are in fake_agent.c. */
#include "coordinator/core/test/fake_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/core/agents/answer.h"
#include "coordinator/core/machine/machine.h"
#include "coordinator/core/model/record.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/step_timers.h"
#include "coordinator/core/test/fake_agent.h"

static int64_t clock_ms = 1700000000000;

void fake_wrong(struct fake *f, const char *fmt, ...)
{
	va_list ap;

	if (f->violations++)
		return;
	va_start(ap, fmt);
	vsnprintf(f->violation, sizeof f->violation, fmt, ap);
	va_end(ap);
}

static unsigned draw(struct fake *f, unsigned below)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 7;
	f->seed ^= f->seed << 17;
	return (unsigned)(f->seed % below);
}

/* ---- the core's world ---------------------------------------------------------------------- */

static int world_journal(struct gck_core *core, const json_t *record, bool sync,
			 struct gck_error *err)
{
	struct fake *f = (struct fake *)core;

	f->syncs += sync;
	if (f->dead)
		return 0;
	f->journal_broken |= f->journal_fails;
	if (f->journal_broken)
		return gck_fail(err, ENOSPC, "the journal is full");
	json_array_append_new(f->journal, json_deep_copy(record));
	return 0;
}

static int world_rewrite(struct gck_core *core, struct gck_error *err)
{
	struct fake *f = (struct fake *)core;

	if (f->dead)
		return 0;
	if (f->journal_fails)
		return gck_fail(err, ENOSPC, "the journal is full");
	json_decref(f->journal);
	f->journal = gck_state_dump(&core->state);
	f->journal_broken = false;
	return 0;
}

static void world_timer(struct gck_core *core, struct gck_step *step, enum gck_timer which,
			unsigned ms)
{
	if (step->id < STEPS)
		((struct fake *)core)->timers[step->id][which] = ms;
}

static void world_slurm(struct gck_core *core, json_t *request, gck_slurm_fn *done, void *arg)
{
	struct fake *f = (struct fake *)core;

	if (f->nslurm == QUEUE) {
		fake_wrong(f, "Slurm is asked without end");
		json_decref(request);
		return;
	}
	f->slurm[f->nslurm++] = (struct fake_slurm){request, done, arg};
}

static int64_t world_now_ms(void)
{
	return clock_ms += 10;
}

void fake_pass(int64_t ms)
{
	clock_ms += ms;
}

int64_t fake_now_ms(void)
{
	return clock_ms;
}

static void world_nonce(char out[GCK_NONCE_TEXT])
{
	static unsigned n;

	snprintf(out, GCK_NONCE_TEXT, "%032x", ++n);
}

/* The real one is wrapping.c's, which has a test of its own. */
static int world_can_wrap(struct gck_core *core, struct gck_error *err)
{
	return ((const struct fake *)core)->wrapping ? 0 :
	       gck_fail(err, ENOKEY, "there is nothing to wrap with");
}

static int world_wrap(struct gck_core *core, const struct gck_job *job, char out[GCK_WRAPPED_MAX],
		      struct gck_error *err)
{
	const struct fake *f = (const struct fake *)core;

	if (world_can_wrap(core, err))
		return -1;
	snprintf(out, GCK_WRAPPED_MAX, "%u:%u", f->wrapping, job->id);
	return 0;
}

static const struct gck_world world = {
	.send = fake_agent_is_sent,
	.drop = fake_agent_is_dropped,
	.journal = world_journal,
	.rewrite = world_rewrite,
	.timer = world_timer,
	.slurm = world_slurm,
	.now_ms = world_now_ms,
	.nonce = world_nonce,
	.wrap = world_wrap,
	.can_wrap = world_can_wrap,
};

/* ---- beginning, end, crash ----------------------------------------------------------------- */

/* Time for nodes that have not confirmed the end of their ranks to be isolated, where a test is not
 * about those. */
static void let_isolate(const struct fake *f)
{
	if (!f->leaves)
		fake_pass(SLURMD_TIMEOUT_S * 1000);
}

static void core_begin(struct fake *f)
{
	memset(&f->core, 0, sizeof f->core);
	f->core.conf = &f->conf;
	f->core.world = &world;
	f->core.transition = gck_machine_step;
	f->core.since = clock_ms / 1000 + 1;
	f->core.slurmd_timeout_s = SLURMD_TIMEOUT_S;
	memset(f->timers, 0, sizeof f->timers);
}

void fake_begin(struct fake *f, uint64_t seed)
{
	memset(f, 0, sizeof *f);
	gck_conf_init(&f->conf);
	strcpy(f->conf.cluster, "test");
	f->options = "interval=30m";
	f->program = "p";
	f->random = draw;
	f->seed = seed * 0x9e3779b97f4a7c15u + 1;
	f->journal = json_array();
	f->common = json_pack("{s:i}", "00112233445566778899aabbccddeeff", 2);
	for (unsigned s = 0; s < STEPS; s++) {
		f->store[s] = json_object();
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_begin(f, s, n);
			f->remnants[s][n].state = F_OVER;
		}
	}
	core_begin(f);
}

static void core_end(struct fake *f)
{
	f->dead = true;
	while (fake_slurm_answers(f, false))
		;
	for (struct gck_job *job = f->core.state.jobs; job; job = job->next)
		for (struct gck_step *step = job->steps; step; step = step->next)
			gck_live_free(step);
	gck_operation_free_all(&f->core);
	gck_state_clear(&f->core.state);
	f->dead = false;
}

void fake_end(struct fake *f)
{
	core_end(f);
	json_decref(f->journal);
	json_decref(f->common);
	for (unsigned s = 0; s < STEPS; s++) {
		json_decref(f->store[s]);
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_end(&f->agents[s][n]);
			fake_agent_end(&f->remnants[s][n]);
		}
	}
}

/* Read the journal back, as at a start. */
static void replay(struct fake *f)
{
	struct gck_error err = {0};
	json_t *record;
	size_t i;

	json_array_foreach(f->journal, i, record)
		if (gck_record_apply(&f->core.state, record, &err))
			fake_wrong(f, "the journal cannot be read back: %s", err.text);
	f->core.state.epoch++;
}

void fake_crash(struct fake *f)
{
	json_t *before = gck_state_dump(&f->core.state), *after;
	bool behind = f->core.behind;

	f->core.state.epoch = 0;
	core_end(f);
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_cut(&f->agents[s][n]);
			fake_agent_cut(&f->remnants[s][n]);
		}
	core_begin(f);
	let_isolate(f);
	replay(f);
	after = gck_state_dump(&f->core.state);
	json_array_remove(before, 0); /* the epoch */
	json_array_remove(after, 0);
	if (!behind && !json_equal(before, after))
		fake_wrong(f, "the state read back is another");
	json_decref(before);
	json_decref(after);
}

/* ---- Slurm and time ------------------------------------------------------------------------ */

/* A job that is taken back has its next restart count at once, and its next submit time later. */
static json_t *job_answer(const struct fake *f)
{
	return json_pack("{s:I, s:I, s:s, s:I, s:I, s:b, s:b, s:i, s:b, s:b}", "job",
			 (json_int_t)JOB,
			 "uid", (json_int_t)OWNER, "user", "owner", "restarts",
			 (json_int_t)f->restarts + f->taken, "submit",
			 (json_int_t)(1000 + f->restarts), "batch", !f->no_requeue, "no_requeue",
			 f->no_requeue, "nodes", NODES, "runs", !f->taken, "ends_itself",
			 !f->taken);
}

json_t *fake_job(const struct fake *f)
{
	return job_answer(f);
}

static void requeue(struct fake *f, const json_t *request, struct gck_slurm_answer *a)
{
	if (f->taken) {
		a->ok = false;
		a->code = EALREADY;
		a->error = "the job is ending already";
		return;
	}
	f->taken = true;
	f->held = json_is_true(json_object_get(request, "hold"));
}

bool fake_slurm_answers(struct fake *f, bool well)
{
	struct gck_slurm_answer a = {.ok = well, .code = well ? 0 : EIO, .error = "no answer"};
	struct fake_slurm q;
	json_t *data = NULL;

	if (!f->nslurm)
		return false;
	q = f->slurm[0];
	memmove(f->slurm, f->slurm + 1, --f->nslurm * sizeof *f->slurm);
	if (well && !strcmp(json_string_value(json_object_get(q.request, "op")), "requeue"))
		requeue(f, q.request, &a);
	else if (well)
		data = job_answer(f);
	a.data = data;
	f->told |= well && f->taken;
	q.done(q.arg, &a);
	json_decref(q.request);
	json_decref(data);
	return true;
}

bool fake_timer_fires(struct fake *f, unsigned id, enum gck_timer which)
{
	struct gck_step *step = gck_state_step(&f->core.state, JOB, id);

	if (!step || !f->timers[id][which])
		return false;
	fake_pass(f->timers[id][which]);
	f->timers[id][which] = 0;
	if (which == GCK_TIMER_PHASE)
		gck_answer_timeout(&f->core, step);
	else if (which == GCK_TIMER_INTERVAL)
		gck_interval_due(&f->core, step);
	else if (which == GCK_TIMER_AGAIN)
		gck_operation_again(&f->core, step);
	else
		gck_hold_due(&f->core, step);
	return true;
}

/* Slurm has to say that the job runs on before ranks are let go that a requeue held. */
static void agent_without_connection(const struct fake *f, struct gck_agent *a)
{
	if (!a->connected && a->held && !(a->leaves && f->taken))
		fake_lets_go(a);
}

static bool deliver_one(struct fake *f, struct gck_agent *a)
{
	bool any;

	agent_without_connection(f, a);
	fake_connect(f, a);
	any = fake_core_takes(f, a);
	return fake_agent_takes(f, a) || any;
}

bool fake_deliver(struct fake *f)
{
	bool any = false;

	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++) {
			any |= deliver_one(f, &f->agents[s][n]);
			any |= deliver_one(f, &f->remnants[s][n]);
		}
	return fake_slurm_answers(f, !f->slurm_away) || any;
}

void fake_settle(struct fake *f)
{
	for (unsigned i = 0; i < 1000 && fake_deliver(f); i++)
		;
}

bool fake_still_runs(struct gck_agent *a)
{
	a->isolated |= a->state == F_RUNNING && !a->joined && clock_ms >= a->until_ms;
	return a->state == F_RUNNING && !a->isolated;
}

/* Slurm gives up the node and does not reach its slurmd. */
static void leave_behind(struct fake *f, struct gck_agent *a)
{
	struct gck_agent *to = &f->remnants[a->step][a->node];

	fake_disconnect(f, a);
	fake_agent_end(to);
	*to = *a;
	to->cut_off = f->random(f, 2);
	memset(a, 0, sizeof *a);
}

static void end_by_slurm(struct fake *f, struct gck_agent *a)
{
	struct gck_step *step = gck_state_step(&f->core.state, JOB, a->step);
	struct gck_node *node = a->joined && step ? gck_live_node(step, a) : NULL;

	if (node && f->leaves && f->random(f, 2))
		gck_answer_bye(&f->core, step, node);
	fake_disconnect(f, a);
	fake_agent_end(a);
}

void fake_requeued(struct fake *f)
{
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++) {
			struct gck_agent *a = &f->agents[s][n];

			if (a->state == F_RUNNING && !fake_still_runs(&f->remnants[s][n]) &&
			    (int)f->random(f, 100) < f->leaves)
				leave_behind(f, a);
			else
				end_by_slurm(f, a);
		}
	let_isolate(f);
	f->restarts++;
	f->taken = f->held = f->told = false;
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++)
			fake_agent_begin(f, s, n);
}
