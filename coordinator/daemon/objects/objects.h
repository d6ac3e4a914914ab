/* SPDX-License-Identifier: Apache-2.0
 * Processes of gpuckptd that read and write stores themselves. */
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

/* ---- scan.c: commits that a store has and the journal lacks (take_over.h) -------------------- */

/* Look for them, in a child process, if that is still to be done. The cluster's name must be known.
 * Steps that run are left to their agents; what is left when their jobs have ended, and stores that
 * could not be read, are looked at by a later call. */
void gck_scan_start(struct gck_daemon *d);

/* ---- sweep.c: the removal of expired images (expire.h) --------------------------------------- */

/* Start a sweep unless one is under way or there is nothing to remove. */
void gck_sweep_start(struct gck_daemon *d);

#endif
