/* SPDX-License-Identifier: Apache-2.0
 * What ranks and the agent on this node get: the limits of their processes, and the directories
 * that gpuckpt.conf names. */
#include "coordinator/cli/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- limits --------------------------------------------------------------------------------- */

static const struct limit {
	int resource;
	const char *name;
	rlim_t least;
	rlim_t unit;
	const char *need;
} limits[] = {
	{ RLIMIT_NOFILE, "open files (ulimit -n)", 4096, 1, "the agent has some of each rank, and "
	  "a rank with GPUs needs some for its memory" },
	{ RLIMIT_NPROC, "processes (ulimit -u)", 512, 1, "each rank is copied for a checkpoint, "
	  "and the agent has workers for it" },
	{ RLIMIT_SIGPENDING, "pending signals (ulimit -i)", 512, 1, "each rank has a timer" },
	{ RLIMIT_FSIZE, "KiB of a file (ulimit -f)", RLIM_INFINITY, 1024, "an image is larger" },
	{ RLIMIT_MEMLOCK, "KiB of locked memory (ulimit -l)", 0, 1024, "" },
};

static void format(char text[24], rlim_t value, rlim_t unit)
{
	if (value == RLIM_INFINITY)
		snprintf(text, 24, "unlimited");
	else
		snprintf(text, 24, "%llu", (unsigned long long)(value / unit));
}

/* Hard limits, since gpuckpt raises the others to them. All are in a line, so that `check --all`
 * shows nodes that differ: a rank that locks memory comes back only where it may. */
void check_limits(struct checks *c)
{
	char all[512] = "", value[24];
	size_t used = 0;
	bool good = true;

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		const struct limit *l = &limits[i];
		struct rlimit now;

		if (getrlimit(l->resource, &now))
			continue;
		format(value, now.rlim_max, l->unit);
		used += (size_t)snprintf(all + used, sizeof all - used, "%s%s: %s", i ? ", " : "",
					 l->name, value);
		if (now.rlim_max >= l->least)
			continue;
		good = false;
		check_warn(c, "raise it for slurmd (its unit's Limit...=) and where jobs are "
			   "submitted, from where Slurm takes it (PropagateResourceLimits)",
			   "%s: %s: %s", l->name, value, l->need);
	}
	if (good)
		check_ok(c, "%s", all);
}

/* ---- directories ---------------------------------------------------------------------------- */

/* They are needed where steps run, which this machine is known to be only within a step. */
static void check_node_directory(struct checks *c, const char *dir, const char *key)
{
	char command[PATH_MAX + 100];

	if (access(dir, F_OK) && !getenv("SLURMD_NODENAME")) {
		check_ok(c, "%s=%s is not there, which only nodes need", key, dir);
		return;
	}
	snprintf(command, sizeof command, "as root on each node: install -d -m 1777 %s", dir);
	check_directory(c, dir, command);
}

void check_stage(struct checks *c)
{
	const char *dir = c->conf->defaults.stage;

	if (*dir)
		check_node_directory(c, dir, "DefaultStage");
}

/* The directory before the first part that differs between jobs. */
void check_log(struct checks *c)
{
	char dir[PATH_MAX];
	char *end;

	snprintf(dir, sizeof dir, "%s", c->conf->agent_log);
	dir[strcspn(dir, "%")] = '\0';
	end = strrchr(dir, '/');
	if (!end)
		return;
	*end = '\0';
	check_node_directory(c, *dir ? dir : "/", "AgentLog");
}
