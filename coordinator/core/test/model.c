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
#include "coordinator/core/test/fake_journal.h"
#include "test/support/tap.h"

#define SEQUENCES 400
#define SEQUENCES_LONG 10000 /* with GPUCKPT_LONG=1 */
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

/* Now and then the coordinator's machine loses what was not on its disk, an older journal is put
 * back, or it is lost. */
static enum fake_loss draw_loss(struct fake *f)
{
	switch (f->random(f, 12)) {
	case 0:
		return FAKE_JOURNAL;
	case 1:
		return FAKE_SINCE_COPY;
	case 2:
	case 3:
		return FAKE_TAIL;
	default:
		return FAKE_NOTHING;
	}
}

/* At once, or in the middle of a record. */
static void crash(struct fake *f)
{
	if (f->random(f, 2))
		f->dies = 1 + f->random(f, 4);
	else
		fake_crash_losing(f, draw_loss(f));
}

/* One random thing happens; likely things happen more often. */
static void happen(struct fake *f)
{
	unsigned what = f->random(f, 10000);

	if (f->dead)
		fake_crash_losing(f, draw_loss(f));
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
		crash(f);
	else if (what < 9965)
		fake_rank_ends(f, any_agent(f), (int32_t)f->random(f, 3) << 8);
	else if (what < 9975 || f->taken)
		fake_requeued(f);
	else if (what < 9985)
		journal_fails(f);
	else if (what < 9990)
		fake_journal_copy(f);
	else if (what < 9995)
		f->unreadable = !f->unreadable && f->random(f, 2);
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
	f->unreadable = false;
	f->dies = 0;
	if (f->dead)
		fake_crash(f);
	memset(f->damaged, 0, sizeof f->damaged);
	f->journal_fails = false;
	for (unsigned i = 0; i < 2000; i++) {
		bool any;

		if (f->taken)
			fake_requeued(f);
		any = fake_deliver(f);
		/* Time passes also when an agent comes again and again. */
		if (!any || i % 100 == 99)
			any |= any_timer_fires(f);
		if (!any)
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

static bool run_sequence(uint64_t seed, char *why, size_t size)
{
	static struct fake f;
	bool good;

	fake_begin(&f, seed);
	f.faults = seed % 4 ? (int)(seed % 4) * 2 : 0;
	f.leaves = f.faults * 4;
	for (unsigned i = 0; i < EVENTS && !f.violations; i++)
		happen(&f);
	if (!f.violations)
		come_to_rest(&f);
	if (!f.violations)
		check_rest(&f);
	commits_seen += f.commits;
	aborts_seen += f.aborts;
	requeues_seen += f.requeues;
	restores_seen += f.restores;
	fallbacks_seen += f.fallbacks;
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
		if (run_sequence(seed, why, sizeof why))
			continue;
		if (bad++ < 10)
			printf("# sequence %u: %s\n", seed, why);
	}
	is_int(bad, 0, "random sequences: every invariant holds");
	printf("# %u sequences from %u: %u commits, %u aborts, %u requeues, %u restores, "
	       "%u fallbacks\n", n, first, commits_seen, aborts_seen, requeues_seen,
	       restores_seen, fallbacks_seen);
	ok(commits_seen > n, "checkpoints were committed");
	ok(aborts_seen > n, "checkpoints were aborted");
	ok(requeues_seen > n / 8, "jobs were requeued");
	ok(restores_seen > n / 4, "steps were restored");
	ok(fallbacks_seen > n / 16, "restarts fell back");
}

/* To examine a failure. */
static int show_sequence(uint64_t seed)
{
	char why[300];
	bool good;

	gck_log_open("model", NULL, GCK_LOG_DEBUG);
	good = run_sequence(seed, why, sizeof why);
	printf("# %s\n", why);
	return !good;
}

/* model.t [SEED | SEQUENCES FIRST]: one sequence with its log, or so many from this seed on. */
int main(int argc, char **argv)
{
	if (argc == 2)
		return show_sequence(strtoull(argv[1], NULL, 0));
	gck_log_open("model", NULL, GCK_LOG_NOTHING);
	if (argc == 3)
		run_all((unsigned)atoi(argv[2]), (unsigned)atoi(argv[1]));
	else
		run_all(1, tap_is_long() ? SEQUENCES_LONG : SEQUENCES);
	return tap_done();
}
