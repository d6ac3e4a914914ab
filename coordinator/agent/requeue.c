/* SPDX-License-Identifier: Apache-2.0
 * Giving a job back to Slurm. */
#include "coordinator/agent/requeue.h"

#include <stdio.h>

#include "coordinator/agent/scontrol.h"
#include "coordinator/agent/step.h"

json_t *requeue_hold(const void *arg, struct gck_error *err)
{
	const struct step *s = arg;
	char job[16], text[256];
	const char *const argv[] = { "scontrol", "requeuehold", job, NULL };

	snprintf(job, sizeof job, "%u", s->job);
	if (scontrol(argv, "", text, sizeof text) == 0)
		return json_true();
	gck_fail(err, EIO, "scontrol requeuehold %s failed: %s", job, *text ? text : "no message");
	return NULL;
}
