/* SPDX-License-Identifier: Apache-2.0
 * A check that the object store can be reached and works as needed, logged when gpuckptd starts. */
#ifndef GCK_DAEMON_PROBE_H
#define GCK_DAEMON_PROBE_H

#include <sys/types.h>

#include "coordinator/daemon/peer/peer.h"

/* Probe in a child process, which may take long. To be called before there are signal handlers,
 * connections and an event loop (which reaps the child). The result is only logged. */
void gck_probe_start(struct gck_daemon *d);

/* In a child process: sign for object stores that are opened from now on, as this user's jobs. */
void gck_probe_signer(struct gck_daemon *d, uid_t uid);

#endif
