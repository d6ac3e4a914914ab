/* SPDX-License-Identifier: Apache-2.0
 * The link of a stand-in's thread to the agent, on the stand-in's side: whole messages (shim/link.h
 * has the packets). */
#ifndef GCK_INSIDE_LINK_H
#define GCK_INSIDE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/link.h"

struct gck_inside_link {
	int fd;              /* -1: none */
	uint64_t cookie;     /* the socket's; the program may put another file in its place */
};

#define GCK_INSIDE_FDS 2

struct gck_inside_message {
	struct gck_thread_msg head; /* its data is only the first piece: use `data` */
	void *data;          /* head.total bytes, aligned for words */
	int fds[GCK_INSIDE_FDS]; /* received; set nfds to 0 to keep them open */
	size_t nfds;
};

/* Connects to an agent's abstract socket, with a descriptor away from the program's. */
GCK_MUST_CHECK int gck_inside_link_connect(struct gck_inside_link *l, const char *name,
					   struct gck_error *err);

/* True if the descriptor is still the socket of the connection. */
bool gck_inside_link_is_ours(const struct gck_inside_link *l);

/* Closes the link; a descriptor that is now another file stays open. */
void gck_inside_link_close(struct gck_inside_link *l);

/* Called by another thread: makes a thread that waits for a message return as if the link had
 * ended. */
void gck_inside_link_wake(const struct gck_inside_link *l);

/* Sends a message with m's type, seq, round and value. -1: the link has ended; a caller that then
 * receives may ignore that, since the next receive reports it too. */
int gck_inside_link_send(const struct gck_inside_link *l, const struct gck_thread_msg *m,
			 const void *data, size_t size);

/* Waits up to ms (-1: without limit) for a message. Returns 1 for a message, 0 for none, -1 if the
 * link has ended or the message is malformed. */
GCK_MUST_CHECK int gck_inside_link_receive(const struct gck_inside_link *l,
					   struct gck_inside_message *m, int ms);

/* Frees the data and closes the descriptors of a message. */
void gck_inside_link_drop(struct gck_inside_message *m);

#endif
