/* SPDX-License-Identifier: Apache-2.0
 * Steps of a restore that gck_restore_image and gck_restore_build take (process.h has the
 * interface). */
#ifndef GCK_PROCESS_RESTORE_H
#define GCK_PROCESS_RESTORE_H

#include "shim/process/ptrace/rebuild.h"

/* Refuse an image that cannot run on with this node's CPU, kernel or clock. Changes nothing. */
int gck_restore_check_node(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Write the preload's state for the new task into the restored memory: PIDs, TIDs, link, standard
 * descriptors, GPUs, environment. The threads must have been made. */
int gck_restore_state(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
