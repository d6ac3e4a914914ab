/* SPDX-License-Identifier: Apache-2.0
 * A first start: is it one? */
#include "config.h"

#include "coordinator/agent/node/gate.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/store_job.h"

#define LOOK_LIMIT_S 4. /* a store that hangs must not keep a job from starting */

struct look {
	struct agent *agent;
	void (*decided)(struct agent *a);
};

static void on_looked(void *data, const json_t *result, const struct gck_error *why)
{
	struct look *look = data;
	struct agent *a = look->agent;
	void (*decided)(struct agent *) = look->decided;

	free(look);
	a->lasting->bound = json_is_true(result);
	if (json_is_true(result))
		gck_warn("step %u.%u has a commit in its store, but the count of restarts in its "
			 "environment is 0: the coordinator is asked whether it goes on from there",
			 a->step->job, a->step->step);
	else if (!result)
		gck_warn("step %u.%u is taken for a first start, which the store could not confirm:"
			 " %s", a->step->job, a->step->step, why->text);
	decided(a);
}

void first_look(struct agent *a, void (*decided)(struct agent *))
{
	const struct store_request r = { .step = a->step };
	struct look *look = malloc(sizeof *look);
	struct gck_error err = { 0 };

	if (!look) {
		decided(a);
		return;
	}
	*look = (struct look){ a, decided };
	if (!job_start(a->loop, "looking for commits", store_used, &r, LOOK_LIMIT_S, on_looked,
		       look, &err))
		on_looked(look, NULL, &err);
}
