/* SPDX-License-Identifier: Apache-2.0
 * What tests of step 0 in the fake world share. */
#ifndef GCK_TEST_ONE_STEP_H
#define GCK_TEST_ONE_STEP_H

#include "coordinator/core/test/fake_agent.h"
#include "test/support/tap.h"

static struct fake f;

static struct gck_step *step_0(void)
{
	return gck_state_step(&f.core.state, JOB, 0);
}

/* Check the agents' rules, and end the world. */
static void end(void)
{
	is_str(f.violation, "", "the rules of the agents were kept");
	fake_end(&f);
}

#endif
