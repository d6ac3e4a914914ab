/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-agent: one per step and node, started by the SPANK plugin as the job's user. This
 * process stays as the supervisor. */
#include "config.h"

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/control.h"
#include "common/base/log.h"
#include "coordinator/agent/base/step.h"
#include "coordinator/agent/node/node.h"

#define LARGE (256 << 10)

/* The agent was started by a task and is bound to that task's CPUs. Writers may use the whole
 * cpuset (the kernel leaves out the rest). */
static void widen_affinity(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all);
}

/* Large blocks go back to the system when they are freed, and grow without a copy, here and in
 * forked processes. By default malloc does so only with blocks larger than any that was freed
 * before. */
static void return_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, LARGE);
}

/* Sends one line to slurmstepd, which waits for it: "ok", or why the step cannot be served.
 * There is no such pipe if another program than the plugin has started the agent. */
static void tell_plugin(const char *line)
{
	struct stat st;

	if (fstat(GCK_AGENT_REPORT_FD, &st) < 0 || !S_ISFIFO(st.st_mode))
		return;
	signal(SIGPIPE, SIG_IGN);
	dprintf(GCK_AGENT_REPORT_FD, "%s\n", line);
	close(GCK_AGENT_REPORT_FD);
}

static int cannot_start(const struct gck_error *err)
{
	gck_error_log("%s", err->text);
	tell_plugin(err->text);
	return 2;
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
	struct supervisor *supervisor;
	struct gck_error err = { 0 };

	if (step_load(&step, argc, argv, &err) < 0)
		return cannot_start(&err);
	if (open_log(&step, &err) < 0)
		gck_warn("%s", err.text);
	setsid();
	widen_affinity();
	return_memory();
	supervisor = supervisor_new(&step, &err);
	if (!supervisor)
		return cannot_start(&err);
	tell_plugin("ok");
	return supervise(supervisor);
}
