/* SPDX-License-Identifier: Apache-2.0
 * inotify descriptors: what they watch. Functions return -1 on failure with err (of a scan: s->err)
 * filled. */
#ifndef GCK_WATCH_H
#define GCK_WATCH_H

#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* Fill x, which is the process's descriptor fd with this fdinfo, or report why it is refused. */
int gck_watch_scan(struct gck_scan *s, int fd, const char *info, struct gck_file *x) GCK_MUST_CHECK;

/* A new descriptor, which watches nothing yet; or -1. */
int gck_watch_make(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* When all files have their content and before any process of the rank runs: set what this
 * process's descriptors watch. Nothing waits in them then. */
int gck_restore_watches(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
