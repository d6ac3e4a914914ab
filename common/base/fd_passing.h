/* SPDX-License-Identifier: Apache-2.0
 * Passing file descriptors to another process with a packet of a Unix socket (SCM_RIGHTS). */
#ifndef GCK_FD_PASSING_H
#define GCK_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define GCK_FDS_MAX 64

/* send() with MSG_NOSIGNAL and n descriptors (0 to GCK_FDS_MAX), which stay open in this
 * process. */
ssize_t gck_fd_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags);

/* recv() with the descriptors of the packet; they are close-on-exec. *n: the capacity of fds, then
 * the number received (0 on failure). The kernel closes descriptors beyond the capacity. */
ssize_t gck_fd_receive(int socket, void *data, size_t size, int *fds, size_t *n, int flags);

#endif
