/* SPDX-License-Identifier: Apache-2.0
 * JSON bodies as packets of a SEQPACKET socketpair between the agent and the processes that it
 * forks. They are small: manifests and images go to the store. */
#ifndef AGENT_PACKET_H
#define AGENT_PACKET_H

#include <jansson.h>

#include "common/base/error.h"

#define PACKET_MAX (128u * 1024)

/* Sends body and drops the reference. -1 also if the peer is gone. */
int packet_send(int fd, json_t *body, struct gck_error *err);

/* The same with a descriptor, which stays open here. */
int packet_give(int fd, json_t *body, int given, struct gck_error *err);

/* Waits up to timeout_ms (-1: for ever, 0: not at all) for a packet. Returns a new reference, or
 * NULL with code ETIMEDOUT, ECONNRESET (the peer is gone) or EBADMSG. */
json_t *packet_recv(int fd, int timeout_ms, struct gck_error *err) GCK_MUST_CHECK;

/* The same. *given: the descriptor that came with it, or -1. */
json_t *packet_take(int fd, int timeout_ms, int *given, struct gck_error *err) GCK_MUST_CHECK;

/* A JSON string of any bytes: those that are not UTF-8 are written as \xNN. */
json_t *packet_string(const char *bytes);

/* Members of a body. `or` is the default for one that is missing or of another type. */
const char *packet_text(const json_t *body, const char *key, const char *or);
json_int_t packet_int(const json_t *body, const char *key, json_int_t or);
int packet_bool(const json_t *body, const char *key);

#endif
