/* SPDX-License-Identifier: Apache-2.0
 * Processes of gpuckptd that use the object store with its keys. */
#ifndef GCK_OBJECTS_H
#define GCK_OBJECTS_H

#include <sys/types.h>

#include "coordinator/daemon/peer/peer.h"

/* ---- probe.c: a check that the object store can be reached and works, at the start ----------- */

/* Probe in a child process, which may take long. Call it before there are signal handlers,
 * connections and an event loop (which reaps the child). The result is only logged. */
void gck_probe_start(struct gck_daemon *d);

/* In a child process: sign for object stores that are opened from now on, as this user's jobs. */
void gck_probe_signer(struct gck_daemon *d, uid_t uid);

/* ---- sweep.c: the removal of expired images (expire.h) --------------------------------------- */

/* Start a sweep unless one is under way or there is nothing to remove. */
void gck_sweep_start(struct gck_daemon *d);

#endif
