/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's work for a commit, and for a change of KeepAge= or Quota=, grows linearly with
 * the number of steps. Work is counted, not timed: the compiled core calls a function of this test
 * at every branch (-fsanitize-coverage=trace-pc). */
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/retention/expire.h"
#include "coordinator/core/retention/removal.h"
#include "coordinator/core/test/history.h"
#include "test/support/tap.h"

#define FEW 250
#define COMMITS 10 /* of every second step; the others are to be restarted from one of these */
#define FIRST 100

static struct fake f;
static unsigned long taken;

void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void)
{
	taken++;
}

static void fill(unsigned steps)
{
	char options[32];

	for (unsigned i = 0; i < steps; i += 2) {
		past_job(&f, FIRST + i, OWNER, "file:/s", "");
		snprintf(options, sizeof options, "restart=%u:1", FIRST + i);
		past_job(&f, FIRST + i + 1, OWNER, "file:/s", options);
		for (unsigned seq = 1; seq <= COMMITS; seq++)
			past_commit(&f, FIRST + i, seq, 500, 10, false);
	}
}

static unsigned commits(unsigned steps)
{
	unsigned n = 0;

	for (unsigned i = 0; i < steps; i++)
		for (const struct gck_commit *c =
			     gck_state_step(&f.core.state, FIRST + i, 0)->commits;
		     c; c = c->older)
			n++;
	return n;
}

/* ---- what is done -------------------------------------------------------------------------- */

static void commit(void)
{
	gck_expire_user(&f.core, OWNER);
}

static void expire(void)
{
	gck_expire(&f.core);
}

static void sweep(void)
{
	json_t *orders = gck_sweep_orders(&f.core, OWNER);
	json_t *done = json_pack("{s:O}", "steps", orders);

	gck_swept_message(&f.core, gck_state_step(&f.core.state, FIRST, 0), NULL, done);
	json_decref(done);
	json_decref(orders);
}

static void nothing(void)
{
}

/* before: not counted. left: the commits of a step that remain: the first, which another step
 * needs, and the last; or all. */
static const struct {
	const char *name;
	int64_t keep_age_s;
	uint64_t quota; /* for each step */
	void (*before)(void), (*counted)(void);
	unsigned left;
} cases[] = {
	{ "a commit when nothing is too old or above the quota", 1000, 1000, nothing, commit,
	  COMMITS },
	{ "a commit when all commits that are too old are needed", 200, 0, expire, commit, 2 },
	{ "a commit when all commits above the quota are needed", 0, 1, expire, commit, 2 },
	{ "KeepAge= is reduced", 200, 0, nothing, expire, 2 },
	{ "Quota= is reduced", 0, 1, nothing, expire, 2 },
	{ "sweeps of removed commits are ordered and done", 200, 0, expire, sweep, 2 },
};

static unsigned long count(size_t i, unsigned steps)
{
	unsigned long n;

	fake_begin(&f, 1);
	fill(steps);
	f.conf.keep_age_s = cases[i].keep_age_s;
	f.conf.quota = cases[i].quota * steps;
	cases[i].before();
	taken = 0;
	cases[i].counted();
	n = taken;
	if (commits(steps) != steps / 2 * cases[i].left)
		n = 0; /* it did something else */
	fake_end(&f);
	return n;
}

static unsigned long count_reading(unsigned steps)
{
	unsigned long n;

	fake_begin(&f, 1);
	taken = 0;
	fill(steps);
	n = taken;
	fake_end(&f);
	return n;
}

/* For twice as many steps sorting takes little more than twice the work; quadratic work would take
 * four times. */
static void is_linear(unsigned long few, unsigned long twice, const char *name)
{
	ok(all_of(few > FEW, twice > few, twice < 3 * few), "%s (%lu and %lu branches)", name, few,
	   twice);
}

int main(void)
{
	gck_log_open("growth", "/dev/null", GCK_LOG_ERROR);
	is_linear(count_reading(FEW), count_reading(2 * FEW), "the records of a journal are read");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		is_linear(count(i, FEW), count(i, 2 * FEW), cases[i].name);
	return tap_done();
}
