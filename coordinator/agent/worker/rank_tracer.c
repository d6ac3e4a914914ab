/* SPDX-License-Identifier: Apache-2.0
 * A rank of a node that is cut off: the process that keeps it stopped, as a tracer does, and not by SIGSTOP:
 * slurmd sends SIGCONT before the SIGTERM with which it ends a job, and what the rank did then it would do
 * beside the job that was started again. The kernel lets the rank go on when this process ends. */
#include "config.h"

#include <limits.h>

#include "coordinator/agent/worker/report.h"
#include "coordinator/agent/worker/worker.h"
#include "shim/process/threads/threads.h"

/* A thread that waits for a file system, which may be cut off as well, stops when that answers: no limit. */
static int hold(const struct worker_task *task, struct gck_held *held, struct gck_error *err)
{
	struct gck_target t;

	if (gck_target_open(&t, task->pid, -1, &task->hello, err) < 0)
		return -1;
	return gck_threads_hold(held, &t, INT_MAX, err);
}

int holder_main(int fd, void *arg)
{
	const struct worker_task *task = arg;
	struct report report = { .fd = fd };
	struct gck_held held = { 0 };
	struct gck_error err = { 0 };

	if (hold(task, &held, &err) < 0) {
		report_failure(&report, "hold", &err);
		return 1;
	}
	json_decref(report_next_held(&report, task->pid, -1, &err));
	return 0;
}
