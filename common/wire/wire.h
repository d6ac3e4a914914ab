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
#define GCK_WIRE_MAX_BULK (6u << 20) /* bytes that may be sent in one go, in base64: sealed, they are
				      * less than what may wait for a peer */
#define GCK_WIRE_ANY_UID ((uid_t)-1)
#define GCK_WIRE_RETRY_MAX_S 5 /* an agent that has lost gpuckptd tries to reach it again within
				* that; gpuckptd's grace period rests on it */

struct gck_wire;

/* Take over a connected, non-blocking stream socket. A server queues its hello at once. peer: the
 * only uid whose frames are taken, or GCK_WIRE_ANY_UID. munge_socket: NULL or "" is the default.
 * The fd is closed by gck_wire_free. */
struct gck_wire *gck_wire_server(int fd, const char *munge_socket, struct gck_error *err);
struct gck_wire *gck_wire_client(int fd, const char *munge_socket, uid_t peer,
				 struct gck_error *err);
void gck_wire_free(struct gck_wire *w);
int gck_wire_fd(const struct gck_wire *w);

/* Queue a message (body is not stolen). A client may send before the hello came: it waits. */
int gck_wire_send(struct gck_wire *w, const json_t *body, struct gck_error *err);

/* Write what is queued: 1 when all went out, 0 when more is left, -1 on failure. pending: so
 * many bytes are to be written now; waiting: a client has messages that wait for the hello. */
int gck_wire_flush(struct gck_wire *w, struct gck_error *err);
size_t gck_wire_pending(const struct gck_wire *w);
bool gck_wire_waiting(const struct gck_wire *w);

/* Read what the socket has: 1 something came, 0 nothing for now, -1 closed (code ECONNRESET) or
 * broken. A client's hello is taken here, so look at gck_wire_pending afterwards. Then take
 * messages one by one: a new reference, or NULL with err->code EAGAIN when no whole frame is there
 * and another code when the frame is refused (close the connection then; nothing more comes). */
int gck_wire_fill(struct gck_wire *w, struct gck_error *err);
json_t *gck_wire_next(struct gck_wire *w, uid_t *uid, struct gck_error *err);

/* For blocking callers (the CLI): connect within timeout_ms, send one message, receive the next. */
struct gck_wire *gck_wire_connect(const char *host, unsigned port, const char *munge_socket,
				  uid_t peer, int timeout_ms, struct gck_error *err);
int gck_wire_put(struct gck_wire *w, const json_t *body, int timeout_ms, struct gck_error *err);
json_t *gck_wire_get(struct gck_wire *w, int timeout_ms, struct gck_error *err);

#endif
