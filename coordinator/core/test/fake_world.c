/* SPDX-License-Identifier: Apache-2.0
 * The fake world's own parts: timers, Slurm, crash. The agents are in fake_agent.c. */
#include "coordinator/core/test/fake_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/agents/answer.h"
#include "coordinator/core/machine/machine.h"
#include "coordinator/core/model/record.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/step_timers.h"
#include "coordinator/core/test/fake_agent.h"
#include "coordinator/core/test/fake_journal.h"

#define DAY_MS 86400000

static int64_t boot_ms = 1700000000000, behind_ms; /* the clock is set behind by that */

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
	return (boot_ms += 10) - behind_ms;
}

void fake_pass(int64_t ms)
{
	boot_ms += ms;
}

int64_t fake_boot_ms(void)
{
	return boot_ms;
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
	.journal = fake_journal_append,
	.rewrite = fake_journal_rewrite,
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
	f->core.since = (boot_ms - behind_ms) / 1000 + 1;
	f->began_ms = boot_ms += 10;
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
	f->records = json_array();
	f->common = json_pack("{s:i}", "00112233445566778899aabbccddeeff", 2);
	for (unsigned s = 0; s < STEPS; s++) {
		f->store[s] = json_object();
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_begin(f, s, n);
			f->remnants[s][n].state = F_OVER;
		}
	}
	behind_ms = 0;
	f->submit = boot_ms / 1000;
	core_begin(f);
	f->core.since -= 3600; /* it has been up for long */
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
	f->dies = 0;
}

void fake_end(struct fake *f)
{
	core_end(f);
	json_decref(f->records);
	fake_journal_end(f);
	json_decref(f->common);
	for (unsigned s = 0; s < STEPS; s++) {
		json_decref(f->store[s]);
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_end(&f->agents[s][n]);
			fake_agent_end(&f->remnants[s][n]);
		}
	}
}

/* Numbers of checkpoints that failed may be given again. */
static void forget_numbers(struct gck_agent *a)
{
	a->prepared = 0;
	*a->nonce = '\0';
}

static void lose(struct fake *f, enum fake_loss loss)
{
	if (loss == FAKE_TAIL)
		fake_journal_lose_tail(f);
	else if (loss == FAKE_SINCE_COPY)
		fake_journal_put_back(f);
	else if (loss == FAKE_JOURNAL)
		fake_journal_remove(f);
	if (loss == FAKE_JOURNAL)
		behind_ms += DAY_MS;
	f->forgot |= loss >= FAKE_SINCE_COPY;
	for (unsigned s = 0; s < STEPS && loss >= FAKE_SINCE_COPY; s++)
		for (unsigned n = 0; n < NODES; n++)
			forget_numbers(&f->agents[s][n]);
}

/* What the journal told before is what it tells now. */
static void check_same(struct fake *f, json_t *before)
{
	json_t *after = gck_state_dump(&f->core.state);

	json_array_remove(before, 0); /* the epoch */
	json_array_remove(after, 0);
	if (!json_equal(before, after))
		fake_wrong(f, "the state read back is another");
	json_decref(after);
}

void fake_crash_losing(struct fake *f, enum fake_loss loss)
{
	static const char *const losses[] = {"nothing", "what was not on the disk",
					     "all since the copy", "its journal"};
	json_t *before;
	bool whole = !f->core.behind && !f->dead && loss == FAKE_NOTHING;

	gck_info("---- the coordinator is killed and loses %s", losses[loss]);
	before = gck_state_dump(&f->core.state);
	core_end(f);
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++) {
			fake_agent_cut(&f->agents[s][n]);
			fake_agent_cut(&f->remnants[s][n]);
		}
	lose(f, loss);
	core_begin(f);
	let_isolate(f);
	fake_journal_start(f, loss < FAKE_SINCE_COPY);
	if (whole)
		check_same(f, before);
	json_decref(before);
}

void fake_crash(struct fake *f)
{
	fake_crash_losing(f, FAKE_NOTHING);
}

static void note_restart(struct fake *f, json_int_t *tried, json_int_t seq, bool runs)
{
	f->restores += runs && seq;
	f->fallbacks += !runs && seq < *tried;
	*tried = runs ? 0 : seq;
}

static void count(struct fake *f, const json_t *record, const char *type, json_int_t step)
{
	json_int_t seq = json_integer_value(json_object_get(record, "seq"));

	f->commits += !strcmp(type, "commit");
	f->aborts += !strcmp(type, "abort");
	f->requeues += !strcmp(type, "requeue") && json_is_true(json_object_get(record, "value"));
	if (step < STEPS && (!strcmp(type, "run") || !strcmp(type, "restore")))
		note_restart(f, &f->tried[step], seq, !strcmp(type, "run"));
}

/* The record of a commit is on the disk before anybody is told of it. */
void fake_noted(struct fake *f, const json_t *record, bool sync)
{
	const char *type = json_string_value(json_object_get(record, "t"));
	json_int_t step = json_integer_value(json_object_get(record, "step"));

	json_array_append_new(f->records, json_deep_copy(record));
	count(f, record, type, step);
	if (sync && !strcmp(type, "commit") && step < STEPS)
		f->promised[step] = (uint32_t)json_integer_value(json_object_get(record, "seq"));
}

/* ---- Slurm and time ------------------------------------------------------------------------ */

/* A job that is taken back has its next restart count at once, and its next submit time later. */
static json_t *job_answer(const struct fake *f)
{
	return json_pack("{s:I, s:I, s:s, s:I, s:I, s:b, s:b, s:i, s:b, s:b}", "job",
			 (json_int_t)JOB,
			 "uid", (json_int_t)OWNER, "user", "owner", "restarts",
			 (json_int_t)f->restarts + f->taken, "submit",
			 (json_int_t)f->submit, "batch", !f->no_requeue, "no_requeue",
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
	else if (which == GCK_TIMER_SLOW)
		gck_slow_due(&f->core, step);
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

static bool has_ended(const struct gck_agent *a)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (fake_has_rank(a, i) && a->exits[i] == GCK_NO_EXIT)
			return false;
	return true;
}

bool fake_still_runs(struct gck_agent *a)
{
	a->isolated |= a->state == F_RUNNING && !a->joined && boot_ms >= a->until_ms;
	return a->state == F_RUNNING && !a->isolated && !has_ended(a);
}

/* Slurm gives up the node and does not reach its slurmd. */
static void leave_behind(struct fake *f, struct gck_agent *a)
{
	struct gck_agent *to = &f->remnants[a->step][a->node];

	fake_disconnect(f, a);
	fake_agent_end(to);
	*to = *a;
	to->cut_off = f->random(f, 2);
	to->until_ms = boot_ms + ISOLATED_MS; /* Slurm said until now that it runs */
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
	f->submit = (boot_ms - behind_ms) / 1000 + 1;
	let_isolate(f);
	f->restarts++;
	gck_info("---- start %u of the job", f->restarts);
	f->taken = f->held = f->told = false;
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++)
			fake_agent_begin(f, s, n);
}
