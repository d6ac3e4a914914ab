/* SPDX-License-Identifier: Apache-2.0
 * The processes below a rank: those that run, and those that have ended and were not waited for.
 * Functions return -1 on failure with err (of a scan: s->err) filled. */
#ifndef GCK_PROCESS_TREE_H
#define GCK_PROCESS_TREE_H

#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* descendants.c: the process's children, which go into the image or are refused; and the rank's
 * orphans, which are descendants whose parent has ended: all, or a known one. */
int gck_scan_children(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_orphans(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_orphan(struct gck_scan *s, pid_t pid) GCK_MUST_CHECK;

/* Whether the process has the same agent as the rank: by its environment, or a parent's. */
bool gck_is_of_step(pid_t pid, pid_t rank);

/* Resident bytes of the image's children that run: an estimate of what they will store. */
uint64_t gck_descendants_bytes(const struct gck_image *img) GCK_MUST_CHECK;

/* children.c: with the rank held, how its children have ended, by its helper; and, once its threads
 * are read, whether one of them waits for a child, which is refused for the moment. */
int gck_scan_ends(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;
int gck_scan_waits(struct gck_scan *s) GCK_MUST_CHECK;

/* Make the image's children and those below, before there is memory to copy. Those that have ended
 * are ended when it returns, and no signal tells their parents; the others are stopped, with the
 * new task's standard descriptors, ready to be built. */
int gck_restore_children(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
