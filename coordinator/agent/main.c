/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-agent: one per step and node, started by the SPANK plugin as the job's user. This process
 * stays as the supervisor. */
#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "coordinator/agent/step.h"
#include "coordinator/agent/supervise.h"

/* The agent comes from a task, bound to that task's CPUs: the writers may use all that the cpuset
 * has (the kernel leaves out the rest). */
static void widen_affinity(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all);
}

static int open_log(const struct step *s, struct gck_error *err)
{
	char path[PATH_MAX];

	if (step_log_path(s, path, sizeof path, err) < 0)
		return -1;
	if (gck_log_open("gpuckpt-agent", *path ? path : NULL, GCK_LOG_INFO) < 0)
		return gck_fail(err, errno, "AgentLog %s: %s", path, strerror(errno));
	return 0;
}

int main(int argc, char *argv[])
{
	static struct step step;
	struct gck_error err = { 0 };

	if (step_load(&step, argc, argv, &err) < 0) {
		fprintf(stderr, "gpuckpt-agent: %s\n", err.text);
		return 2;
	}
	if (open_log(&step, &err) < 0)
		fprintf(stderr, "gpuckpt-agent: %s\n", err.text);
	setsid();
	widen_affinity();
	return supervise(&step);
}
