/* SPDX-License-Identifier: Apache-2.0
 * The connection to the coordinator (doc/protocol.md). It is made with back-off and begins with
 * `register`. */
#ifndef AGENT_UPSTREAM_H
#define AGENT_UPSTREAM_H

#include <jansson.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/job.h"

/* The connection counts as lost when its other end is out of reach for so long. */
#define UPSTREAM_SILENCE_S 20

/* What the connection asks of the files above it. */
struct upstream_ops {
	/* Starts a job that lists the commits in the store. NULL with err filled if it cannot. */
	struct job *(*list)(struct agent *a, job_done *done, void *data, struct gck_error *err);
	/* Returns the message `register` (new reference), NULL without memory. commits
	 * (borrowed): those listed, or NULL; why: why they were not listed, code 0 if that was
	 * not tried. */
	json_t *(*registration)(const struct agent *a, const json_t *commits,
				const struct gck_error *why);
	/* Acts on a message (borrowed). -1: this coordinator is not obeyed, and the connection
	 * is closed. */
	int (*message)(struct agent *a, const json_t *body);
	/* The connection was lost, or could not be made. */
	void (*lost)(struct agent *a);
};

struct upstream *upstream_start(struct agent *a, const struct upstream_ops *ops) GCK_MUST_CHECK;
void upstream_connect(struct upstream *u);
void upstream_stop(struct upstream *u);

/* Registers once more, if it is connected: this start of the job has ended here. */
void upstream_register(struct upstream *u);

/* Sends body (the reference is dropped). Without a connection the message is lost: `register`
 * and the answers to repeated commands make up for it. */
void upstream_send(struct agent *a, json_t *body);

/* The coordinator is obeyed on this connection from its `welcome` on. */
void upstream_welcome(struct upstream *u);
bool upstream_welcomed(const struct upstream *u);

/* Sends `bye` and waits up to timeout_ms until it is on its way. */
void upstream_bye(struct agent *a, int timeout_ms);

struct resolved {
	struct sockaddr_storage address;
	socklen_t len;
	uid_t uid;
};

/* For job.h; arg is a struct gck_conf. Returns {"uid","port","addresses":[..]}. */
json_t *resolve(const void *conf, struct gck_error *err);

/* The address for this attempt, in turn. -1 if there is none. */
int resolve_take(const json_t *result, unsigned attempt, struct resolved *out) GCK_MUST_CHECK;

/* Reports success, with data (dropped; NULL: none). Returns the message, to be sent again (new
 * reference). */
json_t *answer_done(struct agent *a, uint32_t seq, const char *phase, json_t *data);

/* Reports success, without data. */
void answer_plain(struct agent *a, uint32_t seq, const char *phase);

/* Reports a failure. rank: the rank that it is about, NULL if about none. */
void answer_failed(struct agent *a, uint32_t seq, const char *phase, const struct gck_error *why,
		   const uint32_t *rank);

#endif
