/* SPDX-License-Identifier: Apache-2.0
 * Unix sockets that a process which is being rebuilt makes itself: SO_PEERCRED and SO_PEERPIDFD
 * name the process that listened, connected, or made a pair. */
#ifndef GCK_SOCKET_MAKER_H
#define GCK_SOCKET_MAKER_H

#include <sys/socket.h>

#include "shim/process/ptrace/rebuild.h"

struct gck_made_socket {
	int fd;                  /* ours; -1: none */
	struct gck_restore *by;  /* its maker; NULL: this process */
	int theirs;              /* its number there, until gck_socket_leave */
};

/* The process of the tree that the program knows by this number; NULL: there is none. */
struct gck_restore *gck_restore_find(struct gck_restore *r, int32_t vpid);

/* A new socket, and what its maker does with it. -1 with errno. */
int gck_socket_make(struct gck_made_socket *m, struct gck_restore *by, int type) GCK_MUST_CHECK;
int gck_socket_listen(const struct gck_made_socket *m, int backlog) GCK_MUST_CHECK;
int gck_socket_connect(const struct gck_made_socket *m, const struct sockaddr *to,
		       socklen_t n) GCK_MUST_CHECK;

/* Close its maker's descriptor; m->fd stays open. */
void gck_socket_leave(struct gck_made_socket *m);

/* A socketpair, whose ends are ours. -1 with errno. */
int gck_socket_pair(struct gck_restore *by, int type, int end[2]) GCK_MUST_CHECK;

#endif
