/* SPDX-License-Identifier: Apache-2.0
 * Keeps a rank of an isolated node stopped, as its tracer. SIGSTOP would not do: slurmd sends
 * SIGCONT before the SIGTERM that ends a job, and the rank would run beside the job's new start. So
 * a rank that SIGSTOP has stopped, as at the end of its lease, is held as well.
 * The kernel lets the rank go on when this process ends. */
#include "config.h"

#include <limits.h>

#include "coordinator/agent/worker/report.h"
#include "coordinator/agent/worker/worker.h"
#include "shim/process/threads/threads.h"

/* Without a limit: a thread that waits for an unreachable file system stops only when that
 * answers. */
static int hold(const struct worker_task *task, struct gck_held *held, struct gck_error *err)
{
	struct gck_target t;

	if (gck_target_open(&t, task->pid, -1, &task->hello, err) < 0)
		return -1;
	return gck_threads_hold(held, &t, INT_MAX, err);
}

int rank_tracer_main(int fd, void *arg)
{
	const struct worker_task *task = arg;
	struct report report = { .fd = fd };
	struct gck_held held = { .stopped_too = true };
	struct gck_error err = { 0 };

	if (hold(task, &held, &err) < 0) {
		report_failure(&report, "hold", &err);
		return 1;
	}
	json_decref(report_next_held(&report, task->pid, -1, &err));
	return 0;
}
