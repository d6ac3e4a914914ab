/* SPDX-License-Identifier: Apache-2.0
 * inotify descriptors: what they watch. Functions return -1 on failure with err (of a scan:
 * s->err) filled. */
#ifndef GCK_INOTIFY_H
#define GCK_INOTIFY_H

#include "shim/process/rank/scan.h"

/* Fill x, which is the process's descriptor fd with this fdinfo, or report why it is refused. */
int gck_inotify_scan(struct gck_scan *s, int fd, const char *info,
                     struct gck_file *x) GCK_MUST_CHECK;

/* A new descriptor, which watches nothing yet; or -1. */
int gck_inotify_make(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* Have the new descriptor fd watch what the file of the image has watched. */
int gck_inotify_set(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

#endif
