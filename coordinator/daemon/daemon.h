/* SPDX-License-Identifier: Apache-2.0
 * What main.c starts. */
#ifndef GCK_DAEMON_H
#define GCK_DAEMON_H

#include "coordinator/daemon/peer/peer.h"

/* configure.c: read gpuckpt.conf and the keys, and check what they need of this host. StateDir is
 * made if it is missing. */
int gck_configure(struct gck_daemon *d, const char *path, struct gck_error *err) GCK_MUST_CHECK;

/* Do the same, but make nothing; print each problem in a line. Returns the exit status. */
int gck_configure_test(struct gck_daemon *d, const char *path);

/* background.c: fork. The parent waits until the child has started completely or failed, and exits
 * accordingly; it never returns from this. The child keeps stderr until gck_background_done. */
int gck_background_begin(struct gck_error *err) GCK_MUST_CHECK;

/* Start-up is complete: let the parent exit, and leave the terminal. */
int gck_background_done(struct gck_error *err) GCK_MUST_CHECK;

/* slurm_watch.c: poll Slurm every NodePoll seconds for nodes that drain and jobs that are over. */
void gck_watch_start(struct gck_daemon *d);

#endif
