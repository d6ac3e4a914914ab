/* SPDX-License-Identifier: Apache-2.0
 * Removing from the object store what expired (expire.h), in a process with the keys. */
#ifndef GCK_DAEMON_SWEEP_H
#define GCK_DAEMON_SWEEP_H

#include "coordinator/daemon/peer/peer.h"

/* Unless one is under way, or nothing is to be removed. */
void gck_sweep_start(struct gck_daemon *d);

#endif
