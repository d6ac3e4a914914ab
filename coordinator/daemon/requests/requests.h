/* SPDX-License-Identifier: Apache-2.0
 * Requests of agents and of the CLI, and their answers. */
#ifndef GCK_REQUESTS_H
#define GCK_REQUESTS_H

#include "coordinator/core/model/live.h"
#include "coordinator/daemon/peer/peer.h"

/* ---- dispatch.c: for gck_daemon.ops --------------------------------------------------------- */

extern const struct gck_peer_ops gck_request_ops;

/* ---- agent_messages.c: messages of a peer that is, or wants to be, an agent ------------------ */

void gck_agent_message(struct gck_peer *peer, const json_t *body);
void gck_agent_closed(struct gck_agent *agent);

/* ---- request.c: messages of the CLI --------------------------------------------------------- */

void gck_request_message(struct gck_peer *peer, const json_t *body);

/* ---- sign.c: URLs of the object store, for agents and the CLI; keys of encrypted images ------ */

/* "sign": answered at once. */
void gck_sign_message(struct gck_peer *peer, const json_t *body);

/* "unwrap": a job's data key, for the job's owner alone: not for root, nor for other users who may
 * see the job. Answered at once. */
void gck_unwrap_message(struct gck_peer *peer, const json_t *body);

/* ---- report.c: what list, show, status and tasks tell --------------------------------------- */

/* May this user see a job or a step of this owner? */
bool gck_may_see(const struct gck_daemon *d, uid_t uid, uid_t owner);

/* The steps to report: of jobs with these ids, one step or, with GCK_EVERY_STEP, all of each. */
struct gck_report_range {
	uint32_t first, last, step;
};

/* The data of an answer, with what this user may see: as many jobs as fit, at least one. "more" has
 * the id of the next job. */
json_t *gck_report_list(const struct gck_daemon *d, uid_t uid,
			const struct gck_report_range *range);
json_t *gck_report_status(const struct gck_daemon *d, uid_t uid,
			  const struct gck_report_range *range);
/* The tasks of a job array that run or ran with --gpu-ckpt. */
json_t *gck_report_tasks(const struct gck_daemon *d, uid_t uid, uint32_t id);
json_t *gck_report_show(const struct gck_daemon *d, const struct gck_step *step,
			const struct gck_commit *commit);

/* ---- grace.c -------------------------------------------------------------------------------- */

/* The grace period after a start. What the steps of the journal do is unknown until their agents
 * have connected again. A request about a step whose agents are missing waits for them, at most
 * until the period is over; then it is answered from what is known. */
void gck_grace_begin(struct gck_daemon *d);

/* Must the peer's request wait? It is about a step, a job (GCK_EVERY_STEP) or all that its user may
 * see (job 0). If so it is kept, with a reference to body, and given to resume later. */
typedef void gck_grace_fn(struct gck_peer *peer, const json_t *body);
bool gck_grace_keeps(struct gck_peer *peer, uint32_t job, uint32_t step, const json_t *body,
		     gck_grace_fn *resume);

/* Are agents of the step expected to come? */
bool gck_grace_awaits(const struct gck_daemon *d, const struct gck_step *step);

/* An agent has joined: resume requests that need not wait any more. */
void gck_grace_check(struct gck_daemon *d);

/* The peer is gone: drop its request. */
void gck_grace_leave(struct gck_peer *peer);

/* ---- obstacles.c: "able", what prevents a checkpoint ----------------------------------------- */

/* Ask the agents; the peer gets its "end" when all have answered, or after a time limit. */
void gck_able_ask(struct gck_peer *peer, struct gck_job *job, uint32_t step);

/* An agent's answer. */
void gck_able_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		     const json_t *body);

/* ---- importer.c ----------------------------------------------------------------------------- */

/* A connection that imports: from "import" to "imported" it is one import (import.h). The import is
 * given up if the connection ends before, or if nothing is signed for it for longer than a URL is
 * valid. */
struct gck_importer;

/* "may_import", "import", "imported" of the CLI. Slurm may be asked whether it knows the job. */
void gck_importer_ask(struct gck_peer *peer, const json_t *body);
void gck_importer_begin(struct gck_peer *peer, const json_t *body);
void gck_importer_end(struct gck_peer *peer, const json_t *body);

/* A URL was signed for a step that is imported: the import is not silent. */
void gck_importer_heard(const struct gck_daemon *d, const struct gck_step *step);

/* Its connection is closed. */
void gck_importer_closed(struct gck_importer *i);

#endif
