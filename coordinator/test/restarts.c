/* SPDX-License-Identifier: Apache-2.0
 * What becomes of a step when its job is restarted, each rule as a short script over the fake world.
 * What random sequences can find is in model.c. */
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

/* The ranks of step 0 run, and have this many commits. */
static void begin(unsigned commits)
{
	fake_begin(&f, 1);
	settle();
	for (unsigned i = 0; i < commits; i++) {
		gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
		settle();
	}
}

static void end(void)
{
	is_str(f.violation, "", "no rule of the agents was broken");
	fake_end(&f);
}

static bool step_0_is_held_back(void)
{
	return f.taken && f.held && f.agents[0][0].state != F_RUNNING;
}

/* ---- a commit that may have been written --------------------------------------------------- */

/* The agent has written the commit object; its answer does not come. */
static void commit_in_doubt(void)
{
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	for (unsigned i = 0; i < 1000 && !json_object_size(f.store[0]); i++)
		fake_deliver(&f);
	fake_requeued(&f);
}

static void test_in_doubt(void)
{
	begin(0);
	commit_in_doubt();
	f.unreadable = true;
	settle();
	ok(step_0_is_held_back(),
	   "a commit in doubt and a store that cannot be read: the job is held");
	f.unreadable = false;
	fake_requeued(&f);
	settle();
	is_int(f.agents[0][0].from, 1, "with the store readable it is restored");
	end();
	begin(0);
	f.unreadable = true;
	fake_requeued(&f);
	settle();
	ok(step_0_is_held_back(), "the same if the journal knows of no checkpoint at all");
	end();
}

int main(void)
{
	gck_log_open("restarts", "/dev/null", GCK_LOG_ERROR);
	test_in_doubt();
	return tap_done();
}
