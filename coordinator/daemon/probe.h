/* SPDX-License-Identifier: Apache-2.0
 * Whether the object store is reached and does what it must, told in the log when gpuckptd starts. */
#ifndef GCK_DAEMON_PROBE_H
#define GCK_DAEMON_PROBE_H

#include "coordinator/daemon/daemon.h"

/* In a process of its own, which may take its time; before there are signal handlers, connections and
 * an event loop (which waits for it). What it finds changes nothing. */
void gck_probe_start(struct gck_daemon *d);

#endif
