/* SPDX-License-Identifier: Apache-2.0
 * The step's agent as slurmstepd and its tasks see it: its two sockets, its start by the first
 * task, and messages to it. Independent of SPANK. */
#ifndef GCK_SPANK_AGENT_H
#define GCK_SPANK_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/control.h"
#include "common/base/error.h"

struct gck_agent {
	char link[32]; /* abstract name of the listening socket, without its NUL */
	int control;   /* slurmstepd's end */
	int peer;      /* the agent's end of control */
	int listener;
	int ready[2];  /* a pipe: the first task tells the node's others whether the agent runs */
};

#define GCK_AGENT_NONE { .control = -1, .peer = -1, .listener = -1, .ready = { -1, -1 } }

/* In slurmstepd, with the effective uid that the agent will have: make the sockets. */
GCK_MUST_CHECK int gck_agent_prepare(struct gck_agent *a, struct gck_error *err);

/* In slurmstepd, after the tasks are forked: close the descriptors that only they use. */
void gck_agent_forked(struct gck_agent *a);

/* In the first task, as the user: start path with argv and envp. The agent is not a child of the
 * task. It has its own session, the file descriptors of common/base/control.h, default signals and
 * umask 077. Its output is discarded, since slurmstepd waits for the end of its tasks' output.
 * Waits for the agent's report, whose text is the error. */
GCK_MUST_CHECK int gck_agent_start(const struct gck_agent *a, const char *path, char *const argv[],
				   char *const envp[], struct gck_error *err);

/* In the first task: tell the node's other tasks whether the agent runs. In those: wait for that;
 * false: it does not run, or the first task has ended. */
void gck_agent_announce(struct gck_agent *a, bool up, unsigned tasks);
bool gck_agent_is_up(struct gck_agent *a);

/* In slurmstepd: send a message to the agent. Never waits. */
GCK_MUST_CHECK int gck_agent_tell(const struct gck_agent *a, enum gck_control_type type,
				  uint32_t rank, pid_t pid, int status, struct gck_error *err);

/* In slurmstepd, at the step's end: wait until the agent has told the coordinator. Slurm kills all
 * processes in the step's cgroup next. */
void gck_agent_finish(struct gck_agent *a, int timeout_ms);

#endif
