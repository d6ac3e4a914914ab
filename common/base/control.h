/* SPDX-License-Identifier: Apache-2.0
 * Messages of the SPANK plugin (in slurmstepd) to the agent: packets of one struct each over a
 * SEQPACKET socketpair, which is the agent's standard input. End of file without GCK_CONTROL_END
 * means that slurmstepd died. Plain libc. */
#ifndef GCK_CONTROL_H
#define GCK_CONTROL_H

#include <stdint.h>

enum gck_control_type {
	GCK_CONTROL_TASK = 1, /* a task was forked, before its exec: rank (global task id), pid */
	GCK_CONTROL_EXIT,     /* a task ended: rank, pid, status as from wait */
	GCK_CONTROL_END,      /* the step ends normally; the agent finishes and exits */
};

struct gck_control {
	uint32_t type;
	uint32_t rank;
	int32_t pid;
	int32_t status;
};

/* The agent's file descriptors at exec; all others are closed. 0: the control socket; 1, 2:
 * /dev/null, since slurmstepd waits for the end of its tasks' output; 3: the listening SEQPACKET
 * socket for the shims; 4: a pipe for the agent's report. Before the agent forks or waits for
 * anything, it writes one line to it ("ok", or why it cannot serve the step) and closes it. After
 * REPORT_MS (spank/agent.c) the pipe may have no reader, and writing raises SIGPIPE. */
#define GCK_AGENT_CONTROL_FD 0
#define GCK_AGENT_LISTEN_FD 3
#define GCK_AGENT_REPORT_FD 4

/* The plugin sends END when the node's last task has ended. slurmstepd then waits for the control
 * socket to close; after that Slurm kills the rest of the step. The agent closes it within a
 * second. If the tasks died in a restart, the agent first waits until Slurm has requeued the job,
 * at most for this time, since a busy slurmctld is slow. */
#define GCK_REQUEUE_WAIT_MS 20000

/* The agent's environment, built by the plugin; nothing is inherited from the job: GPUCKPT_CONF
 * path of gpuckpt.conf; GPUCKPT_JOB, GPUCKPT_STEP (decimal), GPUCKPT_RESTARTS (SLURM_RESTART_COUNT
 * or 0), GPUCKPT_NODE (name), GPUCKPT_NODEID, GPUCKPT_NNODES, GPUCKPT_NTASKS, GPUCKPT_LOCAL_NTASKS,
 * GPUCKPT_OPTIONS (gck_options_format of defaults plus the user's), GPUCKPT_CWD, GPUCKPT_LINK (see
 * below), GPUCKPT_CLUSTER (SLURM_CLUSTER_NAME, if set), GPUCKPT_MARK (the user's, which is part of
 * the fingerprint, if set), SLURM_CONF (slurmstepd's, if set). Its arguments after "--" are the
 * task's program and arguments.
 *
 * The rank's environment: LD_PRELOAD (ours in front of the user's), GPUCKPT_LINK (the abstract name
 * of the listening socket, without the leading NUL: "gpuckpt-" and 16 hex digits), GPUCKPT_PID (its
 * own pid in GCK_PID_DIGITS digits: its children are not ranks), GPUCKPT_RESTARTS, GPUCKPT_STDIO,
 * GPUCKPT_STANDINS. Link and pid have a fixed length, so that in a restored rank the new values
 * replace the old ones in place. */
#define GCK_PID_DIGITS 10

#endif
