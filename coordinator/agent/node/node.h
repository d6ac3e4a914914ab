/* SPDX-License-Identifier: Apache-2.0
 * The agent of a node: its supervisor, its event loop, and what they dispatch. */
#ifndef AGENT_NODE_H
#define AGENT_NODE_H

#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/upstream/upstream.h"

/* ---- supervise.c ----
 * The parent of the agent. It keeps what must outlive the agent (the control socket, the listening
 * socket, the table of ranks) and forks it again when it dies. It does nothing that can fail. */

struct supervisor;

/* All that may fail. The end of the process frees what a failure leaves. */
struct supervisor *supervisor_new(const struct step *s, struct gck_error *err) GCK_MUST_CHECK;

/* Serves until the step ends, and frees s. Returns the exit status. */
int supervise(struct supervisor *s);

/* ---- event_loop.c ---- */

/* The agent's process. Returns its exit status, 0 when the step has ended in good order. */
int event_loop_run(const struct step *s, struct lasting *lasting, int control);

/* ---- gate.c: what ranks that wait in their constructor are told, and how ranks are ended ---- */

extern const struct agent_ops gate_ops;

void gate_init_timers(struct agent *a);

/* Lets the ranks go. */
void gate_open(struct agent *a);

/* Ranks exit before main: with their earlier statuses (borrowed), or with a failure. why is told
 * to the user. */
void gate_finished(struct agent *a, json_t *statuses, const char *why);
void gate_refuse(struct agent *a, const char *why);

/* The coordinator is connected, or out of reach: ranks that need its word wait for restart-wait. */
void gate_heard(struct agent *a);
void gate_unheard(struct agent *a);

/* Ends the ranks, as in struct agent_ops. */
void gate_end_ranks(struct agent *a, const char *why, bool at_once);

/* Stops the ranks, and ends them a while later. */
void gate_stop_and_end_ranks(struct agent *a, const char *why);

/* Looks into the store, for a few seconds at most, then calls decided, with a->lasting->bound
 * set if it has a commit of this step. */
void gate_check_first_start(struct agent *a, void (*decided)(struct agent *a));

/* ---- dispatch.c: the coordinator's messages ---- */

/* For upstream_start. A coordinator older than one that was obeyed is refused, and its
 * connection closed. */
extern const struct upstream_ops dispatch;

/* ---- thread_messages.c: our threads in the ranks ---- */

/* Takes what shims' links pass on: requests for a checkpoint, connections of our threads,
 * requests for device memory. */
extern const struct links_ops thread_messages;

#endif
