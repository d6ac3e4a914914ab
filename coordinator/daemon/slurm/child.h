/* SPDX-License-Identifier: Apache-2.0
 * Processes that gpuckptd forks while it serves. */
#ifndef GCK_DAEMON_CHILD_H
#define GCK_DAEMON_CHILD_H

#include <sys/types.h>

/* In the child, first of all: nothing of gpuckptd's is kept (no socket, journal, lock or signal handler) but
 * out and err, as stdout and stderr; it ends with its parent. */
void gck_child_become(pid_t parent, int out, int err);

#endif
