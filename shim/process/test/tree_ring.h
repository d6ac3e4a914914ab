/* SPDX-License-Identifier: Apache-2.0
 * read(2) and write(2) by an io_uring, which is made for the call. */
#ifndef GCK_TREE_RING_H
#define GCK_TREE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Transfer n bytes, as read(2) and write(2) do. The ring lives for pause_us longer than it needs:
 * a checkpoint may find it with or without its request, or with what that has returned. */
ssize_t tree_ring_transfer(int fd, void *data, size_t n, bool writes, long pause_us);

#endif
