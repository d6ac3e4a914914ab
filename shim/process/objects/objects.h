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

/* attributes.c: attributes of the whole process in /proc (rights, namespaces, children, limits,
 * timers). gck_scan_node: the CPU's features, unless the image has them, and the program's file,
 * which never change, and what takes too long for a held rank. */
int gck_scan_process(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_node(struct gck_scan *s) GCK_MUST_CHECK;

/* fds.c: descriptors. After the mappings, which make the objects that a memfd may be. */
int gck_scan_fds(struct gck_scan *s) GCK_MUST_CHECK;

/* shared_memory.c: files below /dev/shm that the process has made, also those that nobody has open
 * now. */
int gck_scan_made(struct gck_scan *s) GCK_MUST_CHECK;

/* signals.c: what only the held rank itself can report, by its helper: signal actions, timers,
 * clocks. */
int gck_scan_inside(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* Run the calls of a message to the helper (gck_helper_call): none of them may fail. */
int gck_inside_run(struct gck_scan *s, struct gck_link_msg *m, int timeout_ms) GCK_MUST_CHECK;

/* process_attributes.c: with the rank held, the attributes of its table. */
int gck_scan_attributes(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* timers.c: the POSIX timers that /proc lists, and their remaining times, by the helper. */
int gck_scan_timer_list(struct gck_scan *s) GCK_MUST_CHECK;
int gck_scan_timers(struct gck_scan *s, int timeout_ms) GCK_MUST_CHECK;

/* One descriptor, while its kind is determined. */
struct gck_fd_view {
	int fd;
	char *link;        /* /proc/PID/fd/N */
	char *info;        /* /proc/PID/fdinfo/N */
	struct stat st;
	uint32_t flags;    /* F_GETFL and O_CLOEXEC */
	char object[32];   /* "fd N" */
};

/* Fill x->kind and its data, or report why the descriptor is refused (then the kind does not
 * matter). -1 only if the scan itself failed. */
int gck_fd_file(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_fifo(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_memfd(struct gck_scan *s, const struct gck_fd_view *v,
		 struct gck_file *x) GCK_MUST_CHECK;

/* own: it is one of the task's own 0 to 2, which are another file's at a restart. */
int gck_fd_locks(struct gck_scan *s, const struct gck_fd_view *v, bool own,
		 struct gck_file *x) GCK_MUST_CHECK;
bool gck_file_has_lease(const struct gck_file *f);
int gck_fd_owner(struct gck_scan *s, const struct gck_fd_view *v,
		 struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_device(struct gck_scan *s, const struct gck_fd_view *v,
		  struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_anonymous(struct gck_scan *s, const struct gck_fd_view *v,
		     struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_proc(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_pipe(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x) GCK_MUST_CHECK;
int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v,
		  struct gck_file *x) GCK_MUST_CHECK;
bool gck_queue_is(const struct gck_scan *s, const struct gck_fd_view *v);
int gck_fd_queue(struct gck_scan *s, const struct gck_fd_view *v,
		 struct gck_file *x) GCK_MUST_CHECK;

/* With the rank held: copy the descriptors that are in the queue of file i, a descriptor of which
 * is fd, to the target's flight. first: the number above all of the process's own. */
int gck_socket_fly(struct gck_scan *s, size_t i, int fd, int first) GCK_MUST_CHECK;

/* An option of SOL_SOCKET that is an int; -1: it cannot be read. */
int gck_socket_number(int fd, int option);

/* Check that the file of x->path still has the name that the kernel shows, or has none any more. */
void gck_fd_check_name(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);

/* The task's own standard output or error: if it is a file, its path and size. */
int gck_fd_output(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
	GCK_MUST_CHECK;

/* The task's own standard input: x->offset gets the bytes that were consumed of a pipe. */
void gck_fd_input(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);

/* Once all descriptors are known, check that what they refer to exists. fds[i] is a descriptor of
 * img->files[i]. */
int gck_fds_check_epolls(struct gck_scan *s, const int *fds) GCK_MUST_CHECK;
int gck_fds_check_ends(struct gck_scan *s, const int *fds) GCK_MUST_CHECK;

/* Whether o is what the pipe or socket x is connected to. */
bool gck_file_is_other_end(const struct gck_file *x, const struct gck_file *o);

/* Whether it is a file below /dev/shm, with a name or without, that can be written: other ranks may
 * share it. */
bool gck_file_is_memory(const struct gck_file *x);

/* Bytes of this file's content that the image has. */
uint64_t gck_file_carried(const struct gck_file *x);

/* Open the rank's file again, with a file offset of our own. */
int gck_fd_reopen(const struct gck_target *t, int fd, struct gck_error *err) GCK_MUST_CHECK;

/* ---- hold ---------------------------------------------------------------------------------- */

/* Copy contents of files that the image has, of pipes and of socketpairs. Nothing is consumed. */
int gck_hold_files(struct gck_hold *h) GCK_MUST_CHECK;
int gck_hold_file(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;
int gck_hold_pipe(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;
int gck_hold_socket(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;
int gck_hold_queue(struct gck_hold *h, uint32_t i) GCK_MUST_CHECK;

/* Copy n bytes that wait in file i; or packets, which are kept apart (their sizes are then the
 * image's) or not. */
int gck_hold_bytes(struct gck_hold *h, uint32_t i, const char *data, size_t n) GCK_MUST_CHECK;
struct gck_packets;
int gck_hold_packets(struct gck_hold *h, uint32_t i, struct gck_packets *p,
		     bool apart) GCK_MUST_CHECK;

/* Whether the process has a descriptor or a path of the object, and so all of its content. */
bool gck_object_is_whole(const struct gck_image *img, size_t object) GCK_MUST_CHECK;

/* Copy shared memory. */
int gck_hold_objects(struct gck_hold *h) GCK_MUST_CHECK;

/* With all ranks of the step held: check that files still are as copied. A log that another rank
 * appended to is copied again; any other change fails with EAGAIN. Output files are measured
 * again. */
int gck_hold_update_files(struct gck_hold *h) GCK_MUST_CHECK;

/* ---- restore: checks before anything is changed -------------------------------------------- */

/* file_check.c: mapped files, and opened ones. r records the results. */
int gck_restore_check_contents(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_check_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* input.c: the new task's standard input must reach as far as the old one was consumed. */
int gck_restore_check_input(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* file_locks.c: whether the image has all who get a file's signals. */
int gck_restore_check_owners(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* process_attributes.c: whether this version knows all. */
int gck_restore_check_attributes(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* environ.c: note the new task's environment, before the process is emptied. */
void gck_restore_note_environment(struct gck_restore *r);

/* ---- restore: build ------------------------------------------------------------------------ */

/* shared_memory.c: memfds, filled; their seals once everything is mapped, in all processes. */
int gck_restore_objects(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* A descriptor of what processes share, which stays r's; -1: there is none yet. fd: what this
 * process has made, of which it keeps a copy; or -1. */
int gck_restore_share_object(struct gck_restore *r, const struct gck_object *o, int fd);
int gck_restore_seals(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* file_restore.c: gck_restore_files for one process: write and cut files; then, when all processes
 * have done that and gck_restore_deferred, map those that had to wait for it. */
int gck_restore_own_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_open_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Close those that were written or cut, in this process. */
void gck_restore_close_files(struct gck_restore *r);

/* file_restore.c: fetch the contents of files outside the process, which gck_restore_files writes;
 * then check what that will need, without changing a file. */
int gck_restore_stage(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_try_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* file_space.c: whether the file systems have the space for that. Reserve that of a file, which is
 * open; or give it back. */
int gck_restore_check_space(const struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_reserve(const struct gck_rewrite *w, struct gck_error *err) GCK_MUST_CHECK;
void gck_restore_give_space_back(const struct gck_rewrite *w);

/* fds.c: all of the image's descriptors, except those of files that must be made first; then
 * those. */
int gck_restore_fds(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
void gck_restore_close_pairs(struct gck_restore *r);
int gck_restore_deferred(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
const struct gck_fd *gck_restore_first_fd(const struct gck_restore *r, size_t file);

/* file_locks.c: take the locks of files that are there. Before any process of the step may run, so
 * that none is first; and once more after files were mapped, since a process loses its locks of a
 * file when it closes a descriptor of it. */
int gck_restore_take_locks(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Take the leases, once nobody opens a file for this restart any more: that would break one. */
int gck_restore_take_leases(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Set who gets which signal about a file, once all processes have their threads and queues have
 * what waited in them, which would send one. Those of files with a lease are set with it. */
int gck_restore_owners(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Open file f of the image in this process. A descriptor, or -1. */
int gck_make_path(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_unlinked(struct gck_restore *r, const struct gck_file *f,
		      struct gck_error *err) GCK_MUST_CHECK;
int gck_make_pipe(struct gck_restore *r, const struct gck_file *f,
		  struct gck_error *err) GCK_MUST_CHECK;
int gck_make_socket(struct gck_restore *r, const struct gck_file *f,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_make_single(struct gck_restore *r, const struct gck_file *f,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_make_queue(struct gck_restore *r, const struct gck_file *f,
		   struct gck_error *err) GCK_MUST_CHECK;
int gck_make_eventfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_signalfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_timerfd(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_epoll(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;
int gck_make_pidfd(const struct gck_restore *r, const struct gck_file *f,
		   struct gck_error *err) GCK_MUST_CHECK;
int gck_make_proc(const struct gck_restore *r, const struct gck_file *f,
		  struct gck_error *err) GCK_MUST_CHECK;

/* The process of the rank that a descriptor is of, as in gck_file.process: at the capture from its
 * number, 0 if it is none of the rank; at a restart its new number. */
int32_t gck_fd_process(const struct gck_scan *s, pid_t pid);
pid_t gck_fd_process_now(const struct gck_restore *r, int32_t process);

int gck_restore_check_proc(const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* Open the file of fd again: a new open file description, with the image's flags. */
int gck_make_reopen(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* For the functions that make files: -1 with errno and the file's name in err; -1 after closing
 * fd. */
int gck_make_failed(struct gck_error *err, const struct gck_file *f, const char *what);
int gck_close_failed(int fd);

/* A pipe's or socketpair's two ends are made with the first of them. NULL: not made yet, or
 * failed. */
struct gck_pair *gck_pair_find(struct gck_restore *r, const struct gck_file *f) GCK_MUST_CHECK;
struct gck_pair *gck_pair_add(struct gck_restore *r, const struct gck_file *f,
			      struct gck_error *err) GCK_MUST_CHECK;

/* Add ends that are made; they are closed on failure. */
struct gck_pair *gck_pair_keep(struct gck_restore *r, const struct gck_pair *made,
			       struct gck_error *err) GCK_MUST_CHECK;

/* Whether descriptors are among what waits: these must all be placed before. */
bool gck_file_has_rights(const struct gck_file *f);

/* Put what waited in an end, if anything, back into it; set the end's status flags. */
int gck_make_refill(struct gck_restore *r, const struct gck_file *f, int into,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_make_status(int fd, const struct gck_file *f, struct gck_error *err) GCK_MUST_CHECK;

/* socket_restore.c: for the root, before any process's descriptors: make the unix sockets of all
 * that have names or connections. Nothing in a trial. */
int gck_restore_sockets(struct gck_restore *root, struct gck_error *err) GCK_MUST_CHECK;

/* made_files.c: make the directories above a socket's or FIFO's name that are missing on this node,
 * for this user only: programs have such sockets in a directory below TMPDIR. -1 with errno. */
int gck_restore_make_parent(struct gck_restore *r, const char *path) GCK_MUST_CHECK;

/* Note that this name was made for a socket, FIFO or (st is zero) message queue: it is removed
 * again if the rank does not come to run. -1 with errno. Remove the last one; or all, unless the
 * rank has run. */
int gck_restore_note_made(struct gck_restore *r, const char *path,
			  const struct stat *st) GCK_MUST_CHECK;
void gck_restore_drop_last_made(struct gck_restore *r);
void gck_restore_drop_made(struct gck_restore *r);

/* Once all descriptors exist, of all processes: what waits in sockets and has descriptors; when
 * that is everywhere, close those of this process; shutdowns of sockets. Of this one: what epolls
 * watch. */
int gck_restore_rights(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_close_flight(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_shutdowns(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_epolls(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* input.c: set the new task's standard input to where the old one was. Once only: what is discarded
 * of a pipe does not come again. */
int gck_restore_input(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* signals.c: handlers that are told a signal's sender are called by way of the preload. Before the
 * state is written and the actions are set. */
void gck_restore_handlers(struct gck_image *img, struct gck_shim_state *state);

/* signals.c, timers.c: set actions, make timers; delete timers for another build. */
int gck_restore_actions(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_timers(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_no_timers(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* environ.c: write the new task's identity into the initial environment, once memory is filled; and
 * give the program the launcher's new variables, whose addresses go to s. */
int gck_restore_environment(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_environ(struct gck_restore *r, struct gck_shim_state *s,
			struct gck_error *err) GCK_MUST_CHECK;

/* attributes.c: whether huge pages are allowed, before memory is filled; then the rest. */
int gck_restore_prepare_process(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_process(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* process_attributes.c: before threads are made, which inherit them; then those that would hinder
 * other steps. */
int gck_restore_attributes(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_last_attributes(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* ---- restore: run -------------------------------------------------------------------------- */

/* attributes.c: limits and flags that would hinder the steps before. */
int gck_restore_process_last(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* signals.c, timers.c: queue the signals that were pending; start the timers. From here on only
 * gck_remote_last may be used. */
int gck_restore_queue(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;
int gck_restore_arm(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
