/* SPDX-License-Identifier: Apache-2.0
 * The state machine as a model: random sequences of messages, losses, timeouts, crashes and
 * requests over three steps on three nodes. The agents of the fake world check their orders. After
 * every sequence the faults end and everything must become idle: no rank held, no request
 * unanswered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/test/fake_world.h"
#include "test/support/tap.h"

#define SEQUENCES 400
#define EVENTS 7000

static unsigned commits_seen, aborts_seen, restores_seen, requeues_seen, fallbacks_seen;

static struct gck_agent *any_agent(struct fake *f)
{
	if (f->random(f, 8) == 0)
		return &f->remnants[f->random(f, STEPS)][f->random(f, NODES)];
	return &f->agents[f->random(f, STEPS)][f->random(f, NODES)];
}

static void request(struct fake *f)
{
	static const enum gck_verb verbs[] = {GCK_CREATE, GCK_REQUEUE, GCK_REQUEUE, GCK_VACATE};
	uint32_t step = f->random(f, 3) ? f->random(f, STEPS) : GCK_EVERY_STEP;
	enum gck_verb verb = verbs[f->random(f, 20) ? f->random(f, 3) : 3];

	gck_operation_begin(&f->core, verb, JOB, step, "test", NULL, NULL);
}

static void damage(struct fake *f, unsigned step)
{
	const struct gck_step *s = gck_state_step(&f->core.state, JOB, step);

	f->damaged[step] = s && s->commits ? s->commits->seq : 0;
}

static void journal_fails(struct fake *f)
{
	f->journal_fails = !f->journal_fails && f->random(f, 4) == 0;
}

/* One random thing happens; likely things happen more often. */
static void happen(struct fake *f)
{
	unsigned what = f->random(f, 10000);

	if (what < 4300)
		fake_agent_takes(f, any_agent(f));
	else if (what < 8600)
		fake_core_takes(f, any_agent(f));
	else if (what < 9550)
		fake_connect(f, any_agent(f));
	else if (what < 9700)
		request(f);
	else if (what < 9800)
		fake_slurm_answers(f, f->random(f, 4) != 0);
	else if (what < 9850)
		fake_timer_fires(f, f->random(f, STEPS), f->random(f, 2) ? GCK_TIMER_INTERVAL :
								   GCK_TIMER_AGAIN);
	else if (what < 9885)
		fake_disconnect(f, any_agent(f));
	else if (what < 9890)
		fake_agent_dies(f, any_agent(f));
	else if (what < 9920)
		fake_timer_fires(f, f->random(f, STEPS), f->random(f, 3) ? GCK_TIMER_PHASE :
								   GCK_TIMER_HOLD);
	else if (what < 9940)
		damage(f, f->random(f, STEPS));
	else if (what < 9960)
		fake_crash(f);
	else if (what < 9965)
		fake_rank_ends(f, any_agent(f), (int32_t)f->random(f, 3) << 8);
	else if (what < 9975 || f->taken)
		fake_requeued(f);
	else if (what < 9985)
		journal_fails(f);
}

static bool any_timer_fires(struct fake *f)
{
	for (unsigned s = 0; s < STEPS; s++)
		if (fake_timer_fires(f, s, GCK_TIMER_PHASE) ||
		    fake_timer_fires(f, s, GCK_TIMER_AGAIN))
			return true;
	return false;
}

/* The faults end. Operations complete; timers expire when nothing else happens. */
static void come_to_rest(struct fake *f)
{
	f->faults = 0;
	memset(f->damaged, 0, sizeof f->damaged);
	f->journal_fails = false;
	for (unsigned i = 0; i < 2000; i++) {
		if (f->taken)
			fake_requeued(f);
		if (!fake_deliver(f) && !any_timer_fires(f))
			return;
	}
	fake_wrong(f, "it never becomes idle");
}

static void check_rest(struct fake *f)
{
	for (unsigned s = 0; s < STEPS; s++) {
		const struct gck_step *step = gck_state_step(&f->core.state, JOB, s);
		enum gck_phase phase = step && step->live ? step->live->phase : GCK_OVER;

		for (unsigned n = 0; n < NODES; n++)
			if (f->agents[s][n].held)
				fake_wrong(f, "step %u: ranks of node %u stay held (%s)", s, n,
					   gck_phase_name(phase));
		if (phase != GCK_IDLE && phase != GCK_OVER && phase != GCK_DOOMED &&
		    phase != GCK_ENDING)
			fake_wrong(f, "step %u: stays %s", s, gck_phase_name(phase));
	}
	if (f->core.operations)
		fake_wrong(f, "a request is never answered");
	if (f->core.impossible)
		fake_wrong(f, "%u events that cannot be", f->core.impossible);
}

/* A commit is tried that is older than the one before, and that did not run. */
static bool is_fallback(json_int_t tried[STEPS], const json_t *r, const char *t)
{
	json_int_t step = json_integer_value(json_object_get(r, "step"));
	json_int_t seq = json_integer_value(json_object_get(r, "seq"));
	bool older = !strcmp(t, "restore") && seq < tried[step];

	if (!strcmp(t, "restore") || !strcmp(t, "run"))
		tried[step] = !strcmp(t, "restore") ? seq : 0;
	return older;
}

static void count_records(const struct fake *f)
{
	json_int_t tried[STEPS] = {0};
	json_t *r;
	size_t i;

	json_array_foreach(f->journal, i, r) {
		const char *t = json_string_value(json_object_get(r, "t"));

		commits_seen += !strcmp(t, "commit");
		aborts_seen += !strcmp(t, "abort");
		requeues_seen += !strcmp(t, "requeue") && json_is_true(json_object_get(r, "value"));
		restores_seen += !strcmp(t, "run") && json_integer_value(json_object_get(r, "seq"));
		fallbacks_seen += is_fallback(tried, r, t);
	}
}

static bool run_sequence(uint64_t seed, unsigned events, char *why, size_t size)
{
	static struct fake f;
	bool good;

	fake_begin(&f, seed);
	f.faults = seed % 4 ? (int)(seed % 4) * 2 : 0;
	f.leaves = f.faults * 4;
	for (unsigned i = 0; i < events && !f.violations; i++)
		happen(&f);
	if (!f.violations)
		come_to_rest(&f);
	if (!f.violations)
		check_rest(&f);
	count_records(&f);
	good = !f.violations;
	snprintf(why, size, "%s", f.violation);
	fake_end(&f);
	return good;
}

static void run_all(unsigned first, unsigned n)
{
	char why[300];
	unsigned bad = 0;

	for (unsigned seed = first; seed < first + n; seed++) {
		if (run_sequence(seed, EVENTS, why, sizeof why))
			continue;
		if (bad++ < 10)
			printf("# sequence %u: %s\n", seed, why);
	}
	is_int(bad, 0, "random sequences: every invariant holds");
}

/* model [SEED [EVENTS]]: one sequence with its log, to examine a failure. */
int main(int argc, char **argv)
{
	char why[300];

	if (argc > 1) {
		gck_log_open("model", NULL, GCK_LOG_DEBUG);
		run_sequence(strtoull(argv[1], NULL, 0),
			     argc > 2 ? (unsigned)atoi(argv[2]) : EVENTS, why, sizeof why);
		printf("# %s\n", why);
		return 0;
	}
	gck_log_open("model", "/dev/null", GCK_LOG_ERROR);
	run_all(1, SEQUENCES);
	printf("# %u commits, %u aborts, %u requeues, %u restores, %u fallbacks\n",
	       commits_seen, aborts_seen, requeues_seen, restores_seen, fallbacks_seen);
	ok(commits_seen > SEQUENCES, "checkpoints were committed");
	ok(aborts_seen > SEQUENCES, "checkpoints were aborted");
	ok(requeues_seen > SEQUENCES / 8, "jobs were requeued");
	ok(restores_seen > SEQUENCES / 4, "steps were restored");
	ok(fallbacks_seen > SEQUENCES / 16, "restarts fell back");
	return tap_done();
}
