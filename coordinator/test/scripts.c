/* SPDX-License-Identifier: Apache-2.0
 * Single rules of the coordinator, each as a short script over the fake world. What random
 * sequences can find is in model.c. */
#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/test/tap.h"
#include "coordinator/daemon/operation.h"
#include "coordinator/test/fake_agent.h"

static struct fake f;

/* Everything that is under way comes to its end; no timer goes off. */
static void settle(void)
{
	for (unsigned i = 0; i < 1000 && fake_deliver(&f); i++)
		;
}

static struct gck_step *step_0(void)
{
	return gck_state_step(&f.core.state, JOB, 0);
}

/* The ranks of step 0 run. */
static void begin(void)
{
	fake_begin(&f, 1);
	settle();
}

static void end(void)
{
	is_str(f.violation, "", "no rule of the agents was broken");
	fake_end(&f);
}

static void all_ranks_end(int32_t status)
{
	for (unsigned n = 0; n < NODES; n++)
		fake_all_end(&f, &f.agents[0][n], status);
	settle();
}

/* ---- finished steps ------------------------------------------------------------------------ */

static bool finished_after(int32_t status)
{
	bool finished;

	begin();
	all_ranks_end(status);
	finished = step_0()->finished;
	end();
	return finished;
}

static void test_finished(void)
{
	ok(finished_after(0), "a step whose ranks end with status 0 is finished");
	ok(!finished_after(1 << 8), "one that failed is not");
	ok(!finished_after(SIGTERM), "nor is one that was killed");
}

int main(void)
{
	gck_log_open("scripts", "/dev/null", GCK_LOG_ERROR);
	test_finished();
	return tap_done();
}
