/* SPDX-License-Identifier: Apache-2.0
 * The removal of expired images (expire.h) from the object store, in a process with the keys. */
#ifndef GCK_DAEMON_SWEEP_H
#define GCK_DAEMON_SWEEP_H

#include "coordinator/daemon/peer/peer.h"

/* Start a sweep unless one is under way or there is nothing to remove. */
void gck_sweep_start(struct gck_daemon *d);

#endif
