/* SPDX-License-Identifier: Apache-2.0
 * Giving a job back to Slurm: scontrol, since a job's owner may do so and the agent is not linked
 * against one release of libslurm. */
#include "coordinator/agent/requeue.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/step.h"

#define TOOL_PATH "/usr/bin:/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"

static void exec_scontrol(int out, const char *job)
{
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(out, 1);
	dup2(out, 2);
	if (!getenv("PATH"))
		setenv("PATH", TOOL_PATH, 1);
	execlp("scontrol", "scontrol", "requeuehold", job, (char *)NULL);
	dprintf(2, "cannot execute scontrol: %s", strerror(errno));
	_exit(127);
}

/* Run it; text gets the first line that it prints. The status as from wait, or -1. */
static int run_scontrol(const char *job, char *text, size_t size)
{
	int p[2], status = -1;
	ssize_t n;
	pid_t pid;

	if (pipe(p) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		exec_scontrol(p[1], job);
	close(p[1]);
	n = pid > 0 ? read(p[0], text, size - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	close(p[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

json_t *requeue_hold(const void *arg, struct gck_error *err)
{
	const struct step *s = arg;
	char job[16], text[256];
	int status;

	snprintf(job, sizeof job, "%u", s->job);
	status = run_scontrol(job, text, sizeof text);
	if (status == 0)
		return json_true();
	gck_fail(err, EIO, "scontrol requeuehold %s failed: %s", job, *text ? text : "no message");
	return NULL;
}
