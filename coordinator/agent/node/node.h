/* SPDX-License-Identifier: Apache-2.0
 * The agent of a node: its supervisor, its event loop, and what these dispatch. */
#ifndef AGENT_NODE_H
#define AGENT_NODE_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/upstream/upstream.h"

/* ---- supervise.c: the parent of the agent proper. It keeps what must outlive the agent (the control socket, the
 * listening socket, the table of ranks) and forks it again when it dies. Does nothing that could fail. */

struct supervisor;

/* All that may fail. What is left then the process's end cleans up. */
struct supervisor *supervisor_new(const struct step *s, struct gck_error *err);

/* Serve until the step ends: the exit status. s is gone then. */
int supervise(struct supervisor *s);

/* ---- event_loop.c ---- */

/* The agent's process: its exit status, 0 when the step has ended in good order. */
int agent_run(const struct step *s, struct lasting *lasting, int control);

/* ---- gate.c: what ranks that wait in their constructor are told, and how ranks are ended ---- */

extern const struct agent_ops gate_ops;

void gate_init_timers(struct agent *a);

/* Let the ranks go on. */
void gate_open(struct agent *a);

/* Ranks leave before main: with the statuses that they had ended with (borrowed), or with a failure. why is for the
 * user. */
void gate_finished(struct agent *a, json_t *statuses, const char *why);
void gate_refuse(struct agent *a, const char *why);

/* The coordinator was heard, or is out of reach: ranks that need its word wait for it for restart-wait. */
void gate_heard(struct agent *a);
void gate_unheard(struct agent *a);

/* End the ranks, as in struct agent_ops. */
void gate_end_ranks(struct agent *a, const char *why, bool at_once);

/* Look, for a few seconds at most, then call decided: with agent's lasting->bound set if the store
 * has a commit of this step. */
void gate_look(struct agent *a, void (*decided)(struct agent *a));

/* ---- dispatch.c, register.c: the coordinator's messages ---- */

/* For upstream_start. A message from a coordinator older than one that was heard closes the connection. */
extern const struct upstream_ops dispatch;

/* List the commits in the store (the first node's agent only). */
struct job *register_list(struct agent *a, job_done *done, void *data, struct gck_error *err);

/* The message. commits (borrowed): what was listed; NULL if it was not; why (code 0: nobody asked):
 * it failed. */
json_t *register_body(const struct agent *a, const json_t *commits, const struct gck_error *why);

/* ---- thread_messages.c: our threads in the ranks ---- */

/* Takes what shims' links hand on: requests for a checkpoint, threads' connections, needs of device memory. */
extern const struct links_ops thread_messages;

#endif
