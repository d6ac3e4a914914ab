/* SPDX-License-Identifier: Apache-2.0
 * All steps of a job are checkpointed at one instant: scripts in the fake world, of steps that are
 * slow, fail, or are tried again. That none goes on too early is a rule of the fake agents. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/test/one_step.h"

static bool ended;
static char why[300];

static struct gck_live *live_of(unsigned step)
{
	return gck_state_step(&f.core.state, JOB, step)->live;
}

static unsigned commits_of(unsigned step)
{
	return (unsigned)json_object_size(f.store[step]);
}

static void on_event(void *arg, const char *text, const json_t *data)
{
	(void)arg;
	(void)text;
	(void)data;
}

static void on_end(void *arg, const char *error, const json_t *steps)
{
	(void)arg;
	(void)steps;
	ended = true;
	snprintf(why, sizeof why, "%s", error ? error : "");
}

static void create(void)
{
	const struct gck_waiter waiter = {.wait = true, .event = on_event, .end = on_end};

	ended = false;
	is_int(gck_operation_begin(&f.core, GCK_CREATE, JOB, GCK_EVERY_STEP, "test", &waiter,
				   NULL), 0, "a create of all steps begins");
}

static void begin(void)
{
	fake_begin(&f, 1);
	fake_settle(&f);
}

/* All but step 1 go on until nothing moves; step 1 only until it is in that phase. */
static void stop_at(enum gck_phase phase)
{
	for (unsigned i = 0; i < 300; i++)
		for (unsigned s = 0; s < STEPS; s++)
			for (unsigned n = 0; n < NODES; n++)
				if (s != 1 || live_of(1)->phase != phase) {
					fake_core_takes(&f, &f.agents[s][n]);
					fake_agent_takes(&f, &f.agents[s][n]);
				}
	is_int(live_of(1)->phase, phase, gck_phase_name(phase));
}

static void test_slow(enum gck_phase slow, enum gck_phase others)
{
	begin();
	create();
	stop_at(slow);
	is_int(live_of(0)->phase, others, "step 0 waits for it");
	is_int(live_of(2)->phase, others, "so does step 2");
	fake_settle(&f);
	ok(all_of(ended, !*why), "then all are committed: %s", why);
	for (unsigned s = 0; s < STEPS; s++)
		is_int(commits_of(s), 1, "each step has one commit");
	end();
}

/* The slow step fails for good: its agent's connection ends. */
static void test_left_out(void)
{
	begin();
	create();
	stop_at(GCK_FREEZING);
	fake_disconnect(&f, &f.agents[1][0]);
	fake_settle(&f);
	ok(all_of(ended, strstr(why, "step 7.1: ")), "a step that fails is told: %s", why);
	ok(all_of(commits_of(0) == 1, commits_of(1) == 0, commits_of(2) == 1),
	   "the others do not wait for it");
	end();
}

/* Its own hold= is the limit of what a step waits at the instant. */
static void test_limit(void)
{
	begin();
	create();
	stop_at(GCK_FREEZING);
	is_int(f.timers[0][GCK_TIMER_PHASE], step_0()->live->options.hold_ms,
	       "a frozen step has the time limit of the freeze");
	fake_timer_fires(&f, 0, GCK_TIMER_PHASE);
	is_int(step_0()->live->phase, GCK_ABORTING, "when that is over its ranks go on");
	fake_settle(&f);
	ok(all_of(ended, strstr(why, "could wait no longer for the other steps")), "%s", why);
	ok(all_of(commits_of(0) == 0, commits_of(1) == 1, commits_of(2) == 1),
	   "the others are committed");
	end();
}

static void let_try_again(void)
{
	for (unsigned i = 0; i < 10 && !ended; i++) {
		for (unsigned s = 0; s < STEPS; s++)
			fake_timer_fires(&f, s, GCK_TIMER_AGAIN);
		fake_settle(&f);
	}
}

/* Step 1 refuses for a passing reason when the others are prepared. */
static void test_tried_again(void)
{
	begin();
	f.agents[1][0].passing = 2;
	create();
	fake_settle(&f);
	ok(all_of(!ended, live_of(0)->phase == GCK_IDLE, live_of(2)->phase == GCK_IDLE),
	   "a step is to be tried again: the others are called back");
	let_try_again();
	ok(all_of(ended, !*why), "after the second try again all are committed: %s", why);
	for (unsigned s = 0; s < STEPS; s++)
		is_int(commits_of(s), 1, "each step has one commit");
	end();
}

static void test_tried_in_vain(void)
{
	begin();
	f.agents[1][0].passing = 100;
	create();
	fake_settle(&f);
	let_try_again();
	ok(all_of(ended, strstr(why, "step 7.1: ")), "a step that fails at each try is told: %s",
	   why);
	ok(all_of(commits_of(0) == 1, commits_of(1) == 0, commits_of(2) == 1),
	   "the others are committed all the same");
	end();
}

int main(void)
{
	gck_log_open("instant", "/dev/null", GCK_LOG_ERROR);
	test_slow(GCK_PREPARING, GCK_PREPARED);
	test_slow(GCK_FREEZING, GCK_FROZEN);
	test_slow(GCK_RESUMING, GCK_RESUMED);
	test_left_out();
	test_limit();
	test_tried_again();
	test_tried_in_vain();
	return tap_done();
}
