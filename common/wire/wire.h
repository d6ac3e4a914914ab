/* SPDX-License-Identifier: Apache-2.0
 * The wire between gpuckptd and its peers (agents, the CLI); doc/protocol.md has the format.
 *
 * A frame is a 4-byte big-endian length and that many bytes. The server's first frame is plain JSON
 * with a nonce; every other frame is a munge credential whose payload is
 * {"nonce": N, "count": I, "to": DIRECTION, "body": {...}}: it proves the sender's uid, cannot be
 * moved to another connection, replayed, reordered or answered back. Needs munge and jansson. */
#ifndef GCK_WIRE_H
#define GCK_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"

#define GCK_WIRE_VERSION 1
#define GCK_WIRE_MAX_FRAME (1u << 20)
/* Bytes that may be sent at once, in base64: sealed, they fit into the queue for a peer. */
#define GCK_WIRE_MAX_BULK (6u << 20)
#define GCK_WIRE_ANY_UID ((uid_t)-1)
/* An agent that has lost gpuckptd tries to reconnect at least this often; gpuckptd's grace period
 * relies on it. */
#define GCK_WIRE_RETRY_MAX_S 5

struct gck_wire;

/* Take over a connected, non-blocking stream socket; gck_wire_free closes it. A server queues its
 * hello at once. peer: the only uid whose frames are accepted, or GCK_WIRE_ANY_UID. munge_socket:
 * NULL or "": the default. */
GCK_MUST_CHECK struct gck_wire *gck_wire_server(int fd, const char *munge_socket,
						struct gck_error *err);
GCK_MUST_CHECK struct gck_wire *gck_wire_client(int fd, const char *munge_socket, uid_t peer,
						struct gck_error *err);
void gck_wire_free(struct gck_wire *w);
int gck_wire_fd(const struct gck_wire *w);

/* Queue a message (body is not stolen). A client's message waits until the hello has arrived. */
GCK_MUST_CHECK int gck_wire_send(struct gck_wire *w, const json_t *body, struct gck_error *err);

/* Write what is queued. 1: everything was written; 0: not everything; -1: failure. pending: the
 * bytes that can be written now; waiting: a client has messages that wait for the hello. */
GCK_MUST_CHECK int gck_wire_flush(struct gck_wire *w, struct gck_error *err);
size_t gck_wire_pending(const struct gck_wire *w);
bool gck_wire_waiting(const struct gck_wire *w);

/* Read what the socket has. 1: bytes arrived; 0: none now; -1: the connection is closed (code
 * ECONNRESET) or broken. It also takes a client's hello, so check gck_wire_pending afterwards. */
GCK_MUST_CHECK int gck_wire_fill(struct gck_wire *w, struct gck_error *err);

/* Take the next message that was read: a new reference. NULL with code EAGAIN: no complete frame;
 * with another code: the frame is refused, no more messages follow, and the caller closes the
 * connection. */
GCK_MUST_CHECK json_t *gck_wire_next(struct gck_wire *w, uid_t *uid, struct gck_error *err);

/* For callers that block (the CLI): connect within timeout_ms, send a message, receive the next. */
GCK_MUST_CHECK struct gck_wire *gck_wire_connect(const char *host, unsigned port,
						 const char *munge_socket, uid_t peer,
						 int timeout_ms, struct gck_error *err);
GCK_MUST_CHECK int gck_wire_put(struct gck_wire *w, const json_t *body, int timeout_ms,
				struct gck_error *err);
GCK_MUST_CHECK json_t *gck_wire_get(struct gck_wire *w, int timeout_ms, struct gck_error *err);

#endif
