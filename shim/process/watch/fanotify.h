/* SPDX-License-Identifier: Apache-2.0
 * fanotify descriptors: what they watch. Functions return -1 on failure with err (of a scan:
 * s->err) filled. */
#ifndef GCK_FANOTIFY_H
#define GCK_FANOTIFY_H

#include "shim/process/rank/scan.h"

/* Fill x, which is the process's descriptor fd with this fdinfo, or report why it is refused. */
int gck_fanotify_scan(struct gck_scan *s, int fd, const char *info,
                      struct gck_file *x) GCK_MUST_CHECK;

/* A new descriptor, which watches nothing yet; or -1. */
int gck_fanotify_make(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* Have the new descriptor fd watch what the file of the image has watched. */
int gck_fanotify_set(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

#endif
