/* SPDX-License-Identifier: Apache-2.0
 * The connection to the coordinator (doc/protocol.md): made with back-off, begun with `register`,
 * and what comes over it handed to dispatch. */
#ifndef AGENT_UPSTREAM_H
#define AGENT_UPSTREAM_H

#include "coordinator/agent/base/agent.h"

/* A connection whose other end is out of reach is known to be lost after so long. */
#define UPSTREAM_SILENCE_S 20

struct upstream *upstream_start(struct agent *a);
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

#endif
