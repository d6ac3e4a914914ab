/* SPDX-License-Identifier: Apache-2.0
 * Giving a job back to Slurm. */
#include "coordinator/agent/worker/requeue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "coordinator/agent/base/step.h"
#include "coordinator/agent/worker/scontrol.h"

/* All nodes' agents give it back at the same time, and Slurm refuses all but the first. */
static bool is_given_back(uint32_t job)
{
	struct gck_error why;

	return scontrol_runs(job, UINT32_MAX, &why) < 0 && why.code == ESTALE;
}

json_t *requeue_hold(const void *arg, struct gck_error *err)
{
	const struct step *s = arg;
	char job[16], text[256];
	const char *const argv[] = { "scontrol", "requeuehold", job, NULL };

	snprintf(job, sizeof job, "%u", s->job);
	if (scontrol(argv, "", text, sizeof text) == 0 || is_given_back(s->job))
		return json_true();
	gck_fail(err, EIO, "scontrol requeuehold %s failed: %s", job, *text ? text : "no message");
	return NULL;
}
