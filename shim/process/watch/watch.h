/* SPDX-License-Identifier: Apache-2.0
 * What inotify and fanotify have in common: files that are watched, and their names. Functions
 * return -1 on failure with err (of a scan: s->err) filled. */
#ifndef GCK_WATCH_H
#define GCK_WATCH_H

#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

struct gck_watched {
	uint32_t wd;         /* inotify's number; else 0 */
	uint32_t mask, device;
	uint32_t ignored, flags; /* fanotify's */
	unsigned long inode;
	char *handle;        /* of the file, which tells it from one that had its inode before */
};

struct gck_watched_list {
	struct gck_watched *v;
	size_t n;
};

/* Append a copy; handle: text up to a newline, which is copied, too. */
int gck_watched_add(struct gck_watched_list *l, const struct gck_watched *w, const char *handle,
		    struct gck_error *err) GCK_MUST_CHECK;
void gck_watched_free(struct gck_watched_list *l);

/* What the fdinfo of an inotify descriptor tells. */
int gck_inotify_read(const char *info, struct gck_watched_list *to,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Put all with their names into x->watches, or report the first one that is refused, which stands
 * for all. object: as in obstacles; what: "inotify" or "fanotify". */
int gck_watch_add_all(struct gck_scan *s, const char *object, const char *what,
		      const struct gck_watched_list *from, struct gck_file *x) GCK_MUST_CHECK;

/* Refuse events that wait in the descriptor. */
int gck_watch_check_waiting(struct gck_scan *s, const char *object, const char *what,
			    int fd) GCK_MUST_CHECK;

/* When all files have their content and before any process of the rank runs: set what this
 * process's descriptors watch. Nothing waits in them then. */
int gck_restore_watches(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
