/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/node/incarnation.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/node/node.h"

/* When a process began, in clock ticks since the machine's start; 0: it has ended. */
static unsigned long long began(pid_t pid)
{
	unsigned long long at = 0;
	char path[32], text[1024];
	const char *after;
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	after = strrchr(text, ')'); /* the name may hold anything */
	if (after)
		(void)!sscanf(after + 1, " %*c" " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
			      " %*s %*s %*s %*s %*s %*s %llu", &at);
	return at;
}

/* Is it of the job, and of none of its steps? So are the batch script and what it has started. */
static bool is_of_script(pid_t pid, uint32_t job)
{
	char path[32], wanted[32], *line = NULL;
	size_t size = 0;
	bool of_job = false, of_step = false;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	snprintf(wanted, sizeof wanted, "SLURM_JOB_ID=%u", job);
	f = fopen(path, "re");
	while (f && getdelim(&line, &size, '\0', f) > 0) {
		of_job |= !strcmp(line, wanted);
		of_step |= !strncmp(line, "SLURM_STEP_ID=", 14);
	}
	if (f)
		fclose(f);
	free(line);
	return of_job && !of_step;
}

/* Only what is older than the step's supervisor, which has begun at `before`: a newer start of the
 * job may run on this node too. */
static bool is_to_end(pid_t pid, const struct step *s, unsigned long long before)
{
	unsigned long long at = began(pid);

	return at && at < before && is_of_script(pid, s->job);
}

/* The processes of the job's script, the oldest first. *n: how many. The caller frees them. */
static pid_t *find_script(const struct step *s, size_t *n)
{
	unsigned long long before = began(s->supervisor);
	pid_t *all = NULL, *more, pid;
	DIR *proc = opendir("/proc");
	const struct dirent *one;
	struct stat st;

	*n = 0;
	while (proc && (one = readdir(proc))) {
		pid = (pid_t)atoi(one->d_name);
		if (pid <= 0 || fstatat(dirfd(proc), one->d_name, &st, 0) ||
		    st.st_uid != geteuid() || !is_to_end(pid, s, before))
			continue;
		more = reallocarray(all, *n + 1, sizeof *more);
		if (!more)
			break;
		all = more;
		all[(*n)++] = pid;
	}
	if (proc)
		closedir(proc);
	return all;
}

/* All at once, and srun before the shell that waits for it: Slurm ends what a script leaves by
 * SIGTERM, and an srun that gets that has Slurm end its step. */
static void end_script(const struct step *s)
{
	size_t n;
	pid_t *all = find_script(s, &n);

	for (size_t i = n; i--;)
		kill(all[i], SIGKILL);
	if (n)
		gck_info("%zu processes of the script of job %u are ended", n, s->job);
	free(all);
}

bool incarnation_has_script(const struct agent *a)
{
	size_t n;

	free(find_script(a->step, &n));
	return n;
}

/* srun is ended before the ranks are, on all nodes. When it sees a rank end, it has Slurm end the
 * step; and Slurm would end the newest start's, which has the same number. */
void incarnation_end(struct agent *a, const char *why)
{
	if (a->superseded)
		return;
	a->superseded = true;
	gate_stop_and_end_ranks(a, why);
	end_script(a->step);
}

bool incarnation_is_over(const struct agent *a)
{
	return a->superseded && tasks_all_ended(&a->tasks);
}
