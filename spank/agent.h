/* SPDX-License-Identifier: Apache-2.0
 * The step's agent as slurmstepd and its tasks see it: the two sockets it gets, its start out of
 * the first task, and what it is told. Knows nothing of SPANK. */
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
	int ready[2];  /* a pipe: the first task tells the others of the node whether it is up */
};

#define GCK_AGENT_NONE { .control = -1, .peer = -1, .listener = -1, .ready = { -1, -1 } }

/* In slurmstepd, with the effective uid that the agent will have: make the sockets. */
int gck_agent_prepare(struct gck_agent *a, struct gck_error *err);

/* In slurmstepd, once the tasks are forked: drop what is theirs. */
void gck_agent_forked(struct gck_agent *a);

/* In the first task, as the user: start path with argv and envp. The agent is nobody's child, in
 * a session of its own, with the file descriptors of common/base/control.h, default signals and
 * umask 077. Its output goes nowhere: slurmstepd waits for the end of its tasks' output. Waits
 * for its report; what it says is the error. */
int gck_agent_start(const struct gck_agent *a, const char *path, char *const argv[],
		    char *const envp[], struct gck_error *err);

/* In the first task: tell the node's tasks; in the others: wait for that. False if the first task
 * ended without a word. */
void gck_agent_announce(struct gck_agent *a, bool up, unsigned tasks);
bool gck_agent_is_up(struct gck_agent *a);

/* In slurmstepd: tell the agent, without ever waiting for it. */
int gck_agent_tell(const struct gck_agent *a, enum gck_control_type type, uint32_t rank, pid_t pid,
		   int status, struct gck_error *err);

/* In slurmstepd: the step ends. Slurm kills what is left in the step's cgroup next, so the agent
 * gets a moment to say goodbye to the coordinator. */
void gck_agent_finish(struct gck_agent *a, int timeout_ms);

#endif
