/* SPDX-License-Identifier: Apache-2.0
 * The end that a thread of a stand-in has of its link to the agent: messages, whole (shim/link.h
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
	uint64_t cookie;     /* of that socket: the program may put another file in its place */
};

#define GCK_INSIDE_FDS 2

struct gck_inside_message {
	struct gck_thread_msg head; /* its data are those of the last piece: use `data` */
	void *data;          /* head.total bytes, aligned for words; freed by gck_inside_link_drop */
	int fds[GCK_INSIDE_FDS]; /* that came along; closed by it, too, unless nfds is made 0 */
	size_t nfds;
};

/* Connect to an agent's abstract name, out of the way of the program's descriptors. */
int gck_inside_link_connect(struct gck_inside_link *l, const char *name, struct gck_error *err);

/* Whether the descriptor is still the socket that connect made. */
bool gck_inside_link_is_ours(const struct gck_inside_link *l);

/* Closes it if it is still ours; else forgets it. */
void gck_inside_link_close(struct gck_inside_link *l);

/* From another thread: whoever waits for a message is told that the link has ended. */
void gck_inside_link_wake(const struct gck_inside_link *l);

/* Send a message whose head is m's type, seq, round and value. -1: the link has ended. */
int gck_inside_link_send(const struct gck_inside_link *l, const struct gck_thread_msg *m,
			 const void *data, size_t size);

/* Wait up to ms (-1: for ever) for a message. 1; 0: none came; -1: the link has ended, or broke a
 * rule. */
int gck_inside_link_receive(const struct gck_inside_link *l, struct gck_inside_message *m, int ms);
void gck_inside_link_drop(struct gck_inside_message *m);

#endif
