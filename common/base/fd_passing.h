/* SPDX-License-Identifier: Apache-2.0
 * Passing descriptors between processes (SCM_RIGHTS) with a packet of a Unix socket. */
#ifndef GCK_FD_PASSING_H
#define GCK_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define GCK_FDS_MAX 4

/* send() without a signal, with n descriptors, GCK_FDS_MAX at most, or none. They stay open
 * here. */
ssize_t gck_fd_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags);

/* recv(), with the descriptors that come along, closed on exec. *n: how many there is room for
 * (what is more goes away), and then how many have come; 0 where it fails. */
ssize_t gck_fd_receive(int socket, void *data, size_t size, int *fds, size_t *n, int flags);

#endif
