/* SPDX-License-Identifier: Apache-2.0
 * Whether the object store is reached and does what it must, told in the log when gpuckptd starts. */
#ifndef GCK_DAEMON_PROBE_H
#define GCK_DAEMON_PROBE_H

#include <sys/types.h>

#include "coordinator/daemon/peer/peer.h"

/* In a process of its own, which may take its time; before there are signal handlers, connections and
 * an event loop (which waits for it). What it finds changes nothing. */
void gck_probe_start(struct gck_daemon *d);

/* In such a process: stores of object stores that are opened from now on are of jobs of this user, and
 * signed for here. */
void gck_probe_signer(struct gck_daemon *d, uid_t uid);

#endif
