/* SPDX-License-Identifier: Apache-2.0
 * Pseudo-terminals whose master is a process's of the rank, with their state in the master's file;
 * and the settings of the step's own. Functions return -1 on failure with err (of a scan: s->err;
 * of a hold: h->err) filled. */
#ifndef GCK_TERMINAL_H
#define GCK_TERMINAL_H

#include <sys/stat.h>

#include "shim/process/memory/frozen_copy.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* Whether it is a side of a pseudo-terminal, or /dev/tty. */
bool gck_terminal_is(const struct stat *st);

/* Fill x, which is the process's descriptor fd, or report why it is refused. */
int gck_terminal_scan(struct gck_scan *s, int fd, const struct stat *st,
		      struct gck_file *x) GCK_MUST_CHECK;

/* Note the settings of the step's own terminal (srun --pty), if x, the process's descriptor fd of
 * the task's standard input or output, is one. Give them to the new task's. */
int gck_terminal_scan_own(struct gck_scan *s, int fd, const struct stat *st,
			  struct gck_file *x) GCK_MUST_CHECK;
int gck_terminal_set_own(const struct gck_restore *r, const struct gck_file *f,
			 struct gck_error *err) GCK_MUST_CHECK;

/* Copy what waits in both directions, with all processes held. fd: the process's, of the master. */
int gck_terminal_hold(struct gck_hold *h, struct gck_terminal *t, int fd) GCK_MUST_CHECK;

/* For the root, before children are made: make the terminals of all processes. */
int gck_terminals_make(struct gck_restore *root, struct gck_error *err) GCK_MUST_CHECK;

/* A child that has just become a session's leader opens its terminal, if it had one: those that it
 * makes later then have that, too. session: the number that the leader had. */
int gck_terminal_take(struct gck_restore *r, struct gck_remote *leader, int32_t session,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Open file f of the image in this process. A descriptor, or -1. */
int gck_terminal_open(const struct gck_restore *r, const struct gck_file *f,
		      struct gck_error *err) GCK_MUST_CHECK;

/* With all processes built: make the group that was in the foreground of the terminal of this
 * process's session that again, also of the step's own, if this is the rank. At the end, lock what
 * was locked, and close the root's. */
int gck_terminals_foreground(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
void gck_terminals_close(struct gck_restore *root);

/* terminal_data.c: read what waits in both directions into t, whose settings are known, and put it
 * back, also if this process is killed meanwhile. Nobody else may use the terminal. peer: its other
 * side, opened with O_NONBLOCK. */
int gck_terminal_copy(int master, int peer, struct gck_terminal *t,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Put it into an empty terminal, which gets t's settings, too. -1 with errno. */
int gck_terminal_put(int master, int peer, const struct gck_terminal *t) GCK_MUST_CHECK;

#endif
