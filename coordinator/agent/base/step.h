/* SPDX-License-Identifier: Apache-2.0
 * The step that this agent serves: its environment and arguments (common/base/control.h) and
 * gpuckpt.conf, read once at the start. */
#ifndef AGENT_STEP_H
#define AGENT_STEP_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/conf.h"
#include "common/base/error.h"
#include "common/base/options.h"

struct step {
	uint32_t job, step, restarts;
	uint32_t node_id, nnodes, ntasks, local_ntasks;
	char node[256];
	char cluster[256];
	char link_name[108];     /* abstract name of the listening socket, without the leading
				  * NUL */
	const char *cwd, *mark;
	char *const *argv;       /* the task's program and arguments, NULL at the end */
	pid_t supervisor;        /* may trace the ranks, and so may its descendants */
	char options_text[8192];
	struct gck_options options;
	struct gck_conf conf;
};

int step_load(struct step *s, int argc, char *argv[], struct gck_error *err) GCK_MUST_CHECK;

/* Does this start look like a restart? Slurm may know better. */
bool step_is_restart(const struct step *s);

/* Seconds between progress reports. All nodes together send at most two hundred a second; each
 * sends one in ten seconds at least. */
double step_progress_s(const struct step *s);

/* What a restart compares: {"program","args","cwd","ntasks","mark"}. */
json_t *step_fingerprint(const struct step *s);

/* The path of the log with %j, %s, %n and %u replaced; "" if none is configured. */
int step_log_path(const struct step *s, char *path, size_t size, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
