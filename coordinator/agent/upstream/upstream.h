/* SPDX-License-Identifier: Apache-2.0
 * The connection to the coordinator (doc/protocol.md): made with back-off, begun with `register`,
 * and what comes over it handed to dispatch. */
#ifndef AGENT_UPSTREAM_H
#define AGENT_UPSTREAM_H

#include <jansson.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "coordinator/agent/base/agent.h"
#include "coordinator/agent/worker/job.h"

/* A connection whose other end is out of reach is known to be lost after so long. */
#define UPSTREAM_SILENCE_S 20

/* What the connection asks of the layers above. */
struct upstream_ops {
	/* Start a job that lists the commits in the store; NULL and why. */
	struct job *(*list)(struct agent *a, job_done *done, void *data, struct gck_error *err);
	/* The message `register` (new reference), NULL without memory. commits (borrowed): what was listed, or NULL;
	 * why: why it was not, code 0 if nobody asked. */
	json_t *(*registration)(const struct agent *a, const json_t *commits, const struct gck_error *why);
	/* Act on a message (borrowed). -1: the coordinator's word is not taken, and the connection is closed. */
	int (*message)(struct agent *a, const json_t *body);
	/* The connection was lost, or could not be made. */
	void (*lost)(struct agent *a);
};

struct upstream *upstream_start(struct agent *a, const struct upstream_ops *ops);
void upstream_connect(struct upstream *u);
void upstream_stop(struct upstream *u);

/* Send (the reference is dropped). Without a connection the message is lost: `register` and the
 * answers to repeated commands make up for it. */
void upstream_send(struct agent *a, json_t *body);

/* The coordinator's word is taken on this connection from its `welcome` on. */
void upstream_welcome(struct upstream *u);
bool upstream_welcomed(const struct upstream *u);

/* Say `bye` and wait up to timeout_ms for it to be on its way. */
void upstream_bye(struct agent *a, int timeout_ms);

struct resolved {
	struct sockaddr_storage address;
	socklen_t len;
	uid_t uid;
};

/* For job.h; arg is a struct gck_conf: {"uid","port","addresses":[..]}. */
json_t *resolve(const void *conf, struct gck_error *err);

/* The address for an attempt, in turn. -1 if there is none. */
int resolve_take(const json_t *result, unsigned attempt, struct resolved *out);

/* Succeeded, with data (dropped; NULL: none). Returns the message, to be said
 * again (new reference). */
json_t *answer_done(struct agent *a, uint32_t seq, const char *phase, json_t *data);

/* The same, with nothing to say beside it. */
void answer_plain(struct agent *a, uint32_t seq, const char *phase);

/* Failed; rank: the rank that it is about, NULL if about none. */
void answer_failed(struct agent *a, uint32_t seq, const char *phase, const struct gck_error *why,
		   const uint32_t *rank);

#endif
