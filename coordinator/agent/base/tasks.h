/* SPDX-License-Identifier: Apache-2.0
 * The ranks of this node, as the plugin reports them over the control socket. The supervisor and
 * the agent proper each keep such a table. */
#ifndef AGENT_TASKS_H
#define AGENT_TASKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/control.h"
#include "shim/link.h"

struct child;
struct link;
struct thread_link;

/* Calls of gck_checkpoint() and of gck_checkpoint_all(), by number (shim/link.h). */
struct task_asks {
	uint32_t asked[GCK_ASKERS], committed[GCK_ASKERS], failed[GCK_ASKERS];
	int code;                /* of those that failed */
	char why[GCK_ASK_WHY];
	uint64_t id;             /* under which the coordinator was told of the last */
	double since;            /* when that was first heard of */
	double away;             /* since when the coordinator is, 0: it is not */
};

struct task {
	uint32_t rank;
	pid_t pid;
	int pidfd;           /* supervisor: what is signalled is the task and no later process */
	bool ended;
	int status;          /* as from wait, when it ended */
	struct link *link;   /* agent: its shim's connection, NULL while there is none */
	uint64_t shim_state; /* agent: address of its struct gck_shim_state, 0 while there is no link */
	struct thread_link *mpi, *cuda; /* agent: its MPI and CUDA threads', NULL while there is none */
	struct task_asks asks; /* agent: checkpoints that it asks for */
	int marks[2];        /* agent: what a worker leaves there for the next; -1: none yet */
	struct child *holder; /* agent: keeps it stopped on a node that is cut off; NULL: nobody does */
	bool unheld;         /* agent: that this failed was told */
	bool in_mpi;         /* agent: other ranks need it, from MPI_Init to MPI_Finalize */
};

struct tasks {
	struct task **v;     /* pointers stay valid while the table grows */
	size_t n;
};

struct task *tasks_by_pid(const struct tasks *t, pid_t pid);
struct task *tasks_by_rank(const struct tasks *t, uint32_t rank);
bool tasks_all_ended(const struct tasks *t);

/* Enter what a control packet says. The task, or NULL if the packet concerns none. */
struct task *tasks_apply(struct tasks *t, const struct gck_control *m);

/* The task executes a program: its own calls are counted from 0 again, those of all ranks go on. */
void tasks_begin_asks(struct task_asks *asks);

/* Give up the marks of a task that has ended. */
void tasks_close_marks(struct task *t);

/* [{"rank","pid"}] of the tasks that have not ended. */
json_t *tasks_json(const struct tasks *t);

/* Take a packet from a control socket: 1, 0 when there is none now, -1 at its end. */
int control_take(int fd, struct gck_control *m);

/* The exit status that a shell would give for a status from wait: 0..255. */
int exit_code(int wait_status);

#endif
