/* SPDX-License-Identifier: Apache-2.0
 * Kernel objects of a rank: one file for each kind, with its scan, its copy while the rank is
 * held, and its restore. Functions return -1 on failure with err (of a scan: s->err; of a hold:
 * h->err) filled. */
#ifndef GCK_PROCESS_OBJECTS_H
#define GCK_PROCESS_OBJECTS_H

#include <sys/stat.h>

#include "shim/process/memory/frozen_copy.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"

/* ---- scan ---------------------------------------------------------------------------------- */

/* attributes.c: what /proc tells of the process as a whole (rights, namespaces, children, limits,
 * timers); and the node's CPU features and the program's file, which are the same at any time. */
int gck_scan_process(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_node(struct gck_scan *s) GCK_MUST_CHECK;

/* fds.c: descriptors, after the mappings, which make the objects that a memfd may be. */
int gck_scan_fds(struct gck_scan *s) GCK_MUST_CHECK;

/* signals.c: what only the held rank itself can tell, by its helper: signal actions, timers,
 * clocks. */
int gck_scan_inside(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* Add a system call to a message to the helper; returns where its result will be. Run all of them. */
int64_t *gck_inside_call(struct gck_link_msg *m, long nr, uint64_t a, uint64_t b, uint64_t c,
			 uint64_t d);
int gck_inside_run(struct gck_scan *s, struct gck_link_msg *m, int timeout_ms) GCK_MUST_CHECK;

/* timers.c: the POSIX timers that /proc lists, and the time that each has left, by the helper. */
int gck_scan_timer_list(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_timers(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* One descriptor, while its kind is found out. */
struct gck_fd_view {
	int fd;
	char *link;        /* /proc/PID/fd/N */
	char *info;        /* /proc/PID/fdinfo/N */
	struct stat st;
	uint32_t flags;    /* F_GETFL and O_CLOEXEC */
	char object[32];   /* "fd N" */
};

/* Fill x->kind and what belongs to it, or report why the descriptor cannot be carried (then the
 * kind does not matter). -1 only when the scan itself failed. */
int gck_fd_file(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_memfd(struct gck_scan *s, const struct gck_fd_view *v,
		 struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_device(struct gck_scan *s, const struct gck_fd_view *v,
		  struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_anonymous(struct gck_scan *s, const struct gck_fd_view *v,
		     struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_pipe(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v,
		  struct gck_file *x) GCK_MUST_CHECK;

/* Once all descriptors are known: everything that one refers to must exist. fds[i] is a descriptor
 * of img->files[i]. */
int gck_fds_check_epolls(struct gck_scan *s, const int *fds) GCK_MUST_CHECK;
int gck_fds_check_ends(struct gck_scan *s, const int *fds) GCK_MUST_CHECK;

/* Bytes of content of this file that the image carries. */
uint64_t gck_file_carried(const struct gck_file *x);

/* Open the rank's file again, for reading at offsets of our own. */
int gck_fd_reopen(const struct gck_target *t, int fd, struct gck_error *err) GCK_MUST_CHECK;

/* ---- hold ---------------------------------------------------------------------------------- */

/* Copy contents of files that are carried, of pipes and of socketpairs. Nothing is consumed. */
int gck_hold_files(struct gck_hold *h) GCK_MUST_CHECK;
int gck_hold_file(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;
int gck_hold_pipe(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;
int gck_hold_socket(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;

/* Keep n bytes that wait in file i. */
int gck_hold_bytes(struct gck_hold *h, uint32_t i, const char *data, size_t n) GCK_MUST_CHECK;

/* Copy shared memory. */
int gck_hold_objects(struct gck_hold *h) GCK_MUST_CHECK;

/* With all ranks of the step held: check that files still hold what was copied. A log that another
 * rank appended to is copied again; any other change fails with EAGAIN. */
int gck_hold_update_files(struct gck_hold *h) GCK_MUST_CHECK;

/* ---- restore: checks before anything is changed -------------------------------------------- */

/* file_check.c: mapped files, and opened ones. What is found is kept in r. */
int gck_restore_check_contents(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_check_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* environ.c: note the new task's environment, before the process is emptied. */
void gck_restore_note_environment(struct gck_restore *r);

/* ---- restore: build ------------------------------------------------------------------------ */

/* shared_memory.c: memfds, filled; their seals once all is mapped. */
int gck_restore_objects(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_seals(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* file_restore.c: fetch the contents of files outside the process. gck_restore_files writes them. */
int gck_restore_stage(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* fds.c: all of the image's descriptors, but those that wait for files to be made again; then
 * those. */
int gck_restore_fds(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_deferred(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
const struct gck_fd *gck_restore_first_fd(const struct gck_restore *r, size_t file);

/* Open file f of the image in this process. A descriptor, or -1. */
int gck_make_path(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_unlinked(struct gck_restore *r, const struct gck_file *f,
		      struct gck_error *err) GCK_MUST_CHECK;
int gck_make_pipe(struct gck_restore *r, const struct gck_file *f,
		  struct gck_error *err) GCK_MUST_CHECK;
int gck_make_socket(struct gck_restore *r, const struct gck_file *f,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_make_listener(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_eventfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_signalfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_timerfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_epoll(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* The file behind fd opened again: an open file description of its own, with the image's flags. */
int gck_make_reopen(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* What the makers share: -1 with errno and the file's name in err; -1 after closing fd. */
int gck_make_failed(struct gck_error *err, const struct gck_file *f, const char *what);
int gck_close_failed(int fd);

/* Both ends of a pipe or socketpair are made with the first of them. NULL: not made yet, or
 * failed. */
struct gck_pair *gck_pair_find(struct gck_restore *r, const struct gck_file *f);
struct gck_pair *gck_pair_add(struct gck_restore *r, const struct gck_file *f,
			      struct gck_error *err);

/* Put the bytes that waited in an end back into it, and set the end's status flags. */
int gck_make_refill(struct gck_restore *r, const struct gck_file *f, int into,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_make_status(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* When all descriptors are there: shutdowns of sockets, and what epolls watch. */
int gck_restore_shutdowns(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_epolls(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* signals.c, timers.c: actions and timers are made; timers are deleted again for another build. */
int gck_restore_actions(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_timers(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_no_timers(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* environ.c: write the new task's identity into the initial environment, once memory is filled; and
 * give the program the launcher's new variables, whose places are noted in s. */
int gck_restore_environment(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_environ(struct gck_restore *r, struct gck_shim_state *s,
			struct gck_error *err) GCK_MUST_CHECK;

/* attributes.c: whether huge pages are allowed, before memory is filled; then the rest. */
int gck_restore_prepare_process(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_process(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* ---- restore: run -------------------------------------------------------------------------- */

/* attributes.c: limits and flags that would hinder the steps before. */
int gck_restore_process_last(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* signals.c, timers.c: queue the signals that were pending; start the timers. */
int gck_restore_queue(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_arm(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
