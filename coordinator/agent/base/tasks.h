/* SPDX-License-Identifier: Apache-2.0
 * The ranks of this node, as the plugin reports them over the control socket. The supervisor and
 * the agent each keep such a table. */
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

/* A rank's calls of gck_checkpoint() and gck_checkpoint_all(), by number (shim/link.h). */
struct task_requests {
	uint32_t asked[GCK_REQUEST_KINDS], committed[GCK_REQUEST_KINDS], failed[GCK_REQUEST_KINDS];
	int code;                /* error code of the failed ones */
	char why[GCK_ASK_WHY];
	uint64_t id;             /* under which the coordinator was last told of a call */
	double since;            /* when that call was first reported */
	double away;             /* since when the coordinator is out of reach; 0: it is
				  * connected */
};

/* A rank's lease (ranks/lease.h), also while it has no link. Times are those of gck_boot_ms(); 0:
 * none. */
struct task_lease {
	int64_t sent_ms; /* the end of the last lease that was sent */
	int64_t read_ms; /* the end of the last lease that the rank has read */
	bool foreign;    /* a signal stopped the rank during that lease: not its end */
};

struct task {
	uint32_t rank;
	pid_t pid;
	pid_t number;        /* agent: the rank is in a PID namespace of its own, where this is
			      * its pid; 0: it is in the agent's */
	int pidfd;           /* supervisor: signals reach this task only, even if its pid is used
			      * again */
	bool ended;
	int status;          /* as from wait, once it has ended */
	struct link *link;   /* agent: its shim's connection; NULL: none */
	struct task_lease lease; /* agent */
	uint64_t shim_state; /* agent: address of its struct gck_shim_state; 0: no link */
	struct thread_link *mpi, *cuda; /* agent: lists of links of its MPI thread, and of the CUDA
			      * threads of its processes; NULL: none */
	struct task_requests requests; /* agent: checkpoints that it asks for */
	int tracker_fds[2]; /* agent: a worker leaves its dirty page tracker here for the next; -1:
			     * none yet */
	struct child *tracer; /* agent: stops it while the node is isolated; NULL: no process
			       * does */
	bool told_not_held;  /* agent: it was logged that it could not be stopped */
	bool in_mpi;         /* agent: other ranks need it, from MPI_Init to MPI_Finalize */
	pid_t mpi_pid;       /* agent: which process of the rank uses MPI; 0: none */
	uint64_t mpi_state;  /* agent: address of its struct gck_mpi_state */
};

struct tasks {
	struct task **v;     /* pointers stay valid while the table grows */
	size_t n;
	char unsaid[4096];   /* agent: lines that no rank could take yet (task_stdio.h) */
};

struct task *tasks_by_pid(const struct tasks *t, pid_t pid);

/* The task in whose process's place this one is, in a PID namespace (shim/preload/start/apart.h):
 * from now on the rank's process. NULL: none. */
struct task *tasks_take_apart(const struct tasks *t, pid_t pid);

/* For a worker of the rank: the rank's pid there, and in whose namespaces; 0: in the agent's. */
pid_t task_number(const struct task *t);
pid_t task_beside(const struct task *t);

/* Whether a process of the rank, by its pid for a worker, has ended or is ending. */
bool task_process_ended(const struct task *t, pid_t number);

/* The task that has this process, or from which it descends; NULL: none. */
struct task *tasks_above(const struct tasks *t, pid_t pid);
struct task *tasks_by_rank(const struct tasks *t, uint32_t rank);
bool tasks_all_ended(const struct tasks *t);

bool task_is_stopped(const struct task *t); /* by a signal */

/* One that is stopped by a signal, as all ranks of a suspended job are; NULL: none. */
const struct task *tasks_stopped(const struct tasks *t);

/* Enters a control packet. Returns the task, or NULL if the packet concerns none. */
struct task *tasks_apply(struct tasks *t, const struct gck_control *m);

/* The task has executed a program: its own calls are counted from 0 again, those of all ranks go
 * on. */
void tasks_begin_requests(struct task_requests *asks);

/* Closes the tracker of a task that has ended. */
void tasks_close_tracker(struct task *t);

/* Returns [{"rank","pid"}] of the tasks that have not ended. */
json_t *tasks_json(const struct tasks *t);

/* Takes a packet from a control socket: 1; 0 if there is none now; -1 at its end. */
int control_take(int fd, struct gck_control *m);

/* The exit status, 0 to 255, that a shell would give for a wait status. */
int exit_code(int wait_status);

#endif
