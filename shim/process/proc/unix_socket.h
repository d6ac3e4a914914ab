/* SPDX-License-Identifier: Apache-2.0
 * What the kernel reports of a unix socket (sock_diag(7)). */
#ifndef GCK_UNIX_SOCKET_H
#define GCK_UNIX_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_UNIX_QUEUE_MAX 512

struct gck_unix_socket {
	uint32_t peer;          /* its inode; 0: none, or one that no process has (yet) */
	uint32_t shutdown;      /* bit 0: receiving, bit 1: sending */
	uint32_t file;          /* inode of the file that is its name; 0: none */
	/* of a listening one: */
	uint32_t backlog;
	uint32_t waiting;       /* connections that are not accepted yet */
	uint32_t queue[GCK_UNIX_QUEUE_MAX]; /* inodes of their clients, in order; 0: closed */
	size_t nqueue;          /* less than `waiting`: there are too many */
};

/* Describe the socket with this inode. ENOTSUP: the kernel does not. */
int gck_unix_socket(uint32_t inode, struct gck_unix_socket *k,
		    struct gck_error *err) GCK_MUST_CHECK;

#endif
