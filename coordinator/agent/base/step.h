/* SPDX-License-Identifier: Apache-2.0
 * Which step this agent serves: its environment and arguments (common/base/control.h) and gpuckpt.conf,
 * read once when it starts. */
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
	char link_name[108];     /* abstract name of the listening socket, without the NUL */
	const char *cwd, *mark;
	char *const *argv;       /* the task's program and arguments, NULL at the end */
	pid_t supervisor;        /* allowed to trace the ranks, with its descendants */
	char options_text[8192];
	struct gck_options options;
	struct gck_conf conf;
};

int step_load(struct step *s, int argc, char *argv[], struct gck_error *err);

/* Is there, as far as is known here, something that it goes on from? */
bool step_is_restart(const struct step *s);

/* Seconds between reports of progress: all nodes together make two hundred a second at most, and none
 * is silent for long. */
double step_progress_s(const struct step *s);

/* What a restart compares: {"program","args","cwd","ntasks","mark"}. */
json_t *step_fingerprint(const struct step *s);

/* The path of the log with %j, %s, %n, %u replaced; "" if none is configured. */
int step_log_path(const struct step *s, char *path, size_t size, struct gck_error *err);

#endif
