/* SPDX-License-Identifier: Apache-2.0
 * Passing descriptors to a process that is being rebuilt, over a socketpair whose other end it
 * has. */
#ifndef GCK_FD_CHANNEL_H
#define GCK_FD_CHANNEL_H

#include "common/base/fd_passing.h"
#include "shim/process/ptrace/rebuild.h"

/* Free the numbers that the image uses, move the task's own descriptors 0 to 2 above them, and make
 * the channel. Descriptors of a previous build are closed. */
int gck_restore_channel(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Pass n descriptors, 1 to GCK_FDS_MAX, which stay open here. there: their numbers in the
 * process. */
int gck_restore_give_all(struct gck_restore *r, const int *fds, size_t n, int *there,
			 struct gck_error *err) GCK_MUST_CHECK;

/* The same with one. Returns its number in the process, or -1. */
int gck_restore_give(struct gck_restore *r, int fd, struct gck_error *err) GCK_MUST_CHECK;

/* A descriptor of ours for the process's open file description fd, or -1. */
int gck_restore_take(const struct gck_restore *r, int fd, struct gck_error *err) GCK_MUST_CHECK;

/* Copy the process's descriptor `there` to all places where the image has this file, and close
 * `there` unless it is one of the task's own. */
int gck_restore_spread(struct gck_restore *r, size_t file, int there,
		       struct gck_error *err) GCK_MUST_CHECK;

/* Put a descriptor in all places where the image has this file. fd is ours; it is ignored for the
 * task's own descriptors 0 to 2 (GCK_FD_STDIO). */
int gck_restore_place(struct gck_restore *r, size_t file, int fd,
		      struct gck_error *err) GCK_MUST_CHECK;

#endif
