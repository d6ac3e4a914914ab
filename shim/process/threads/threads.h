/* SPDX-License-Identifier: Apache-2.0
 * Stopping a rank's threads and reading them. Registers of a live rank are only written where a
 * thread is borrowed (borrow.h, summon.c), and for a call that would not be restarted. Stops are
 * taken with WNOWAIT, so that a signal that was about to be delivered is delivered even if the
 * tracer dies. */
#ifndef GCK_THREADS_H
#define GCK_THREADS_H

#include "shim/process/image/image.h"
#include "shim/process/image/obstacles.h"
#include "shim/process/ptrace/rebuild.h"
#include "shim/process/rank/scan.h"
#include "shim/process/rank/target.h"

#define GCK_XSTATE_BV_AT 512            /* offset in an xstate: which components are in use */
#define GCK_XSTATE_TILES (1ull << 18)

struct gck_held_thread {
	pid_t tid;
	bool stopped;
	int signal;               /* about to be delivered when the thread was stopped; 0: none */
	struct gck_pending info;  /* of that signal */
	bool asked;               /* gck_implant_ask has filled in the rest */
	struct {
		uint64_t sp, size;
		uint32_t flags;
	} altstack;
	uint64_t tid_address;
	int32_t death_signal;
};

struct gck_held {
	struct gck_held_thread *v;
	size_t n, capacity;
	bool stopped_too;         /* set before: a process that a signal has stopped is held, too */
	bool whole;               /* all threads are stopped */
	int64_t first_ns, last_ns; /* CLOCK_REALTIME: first asked to stop, last released */
};

/* Wait, at most 30 ms, until no thread is in the middle of a transfer through a pipe or socket. A
 * thread that is stopped there returns with a part of the bytes. */
void gck_threads_wait_transfers(const struct gck_target *t);

/* Stop every thread but the helper within timeout_ms. On failure all are released. A process that
 * a signal has stopped is refused (EBUSY), unless h->stopped_too; SIGCONT then does not let it
 * run. */
int gck_threads_hold(struct gck_held *h, const struct gck_target *t, int timeout_ms,
		     struct gck_error *err) GCK_MUST_CHECK;

/* How the abstract names begin at which helpers that are summoned connect. */
#define GCK_TREE_LINK "gpuckpt-tree-"

/* summon.c: with all held, make a helper in a process that has none. It connects to the abstract
 * name `link`, where `listener` listens; t->link gets its socket, at whose end it ends. */
int gck_summon(struct gck_target *t, struct gck_held *h, const char *link, int listener,
	       struct gck_error *err) GCK_MUST_CHECK;

/* Whether one of the held threads, of a process whose state was just read, is about to execute or
 * spawn a program: then a restart from now would come too late for what it hands on. -1 with
 * EAGAIN. */
int gck_threads_check_executions(const struct gck_held *h, const struct gck_target *t,
				 struct gck_error *err) GCK_MUST_CHECK;

/* implant.c: with all held, put the preload into a process whose program takes none, by its main
 * thread x. And ask its threads for what only they can tell. */
int gck_implant(struct gck_target *t, struct gck_held_thread *x,
		struct gck_error *err) GCK_MUST_CHECK;
int gck_implant_ask(struct gck_target *t, struct gck_held *h, struct gck_error *err) GCK_MUST_CHECK;

/* Between looks whether a thread has stopped: most do so at once. looks: so many so far. */
void gck_threads_pause(unsigned looks);

/* Release all. Does nothing if none is held. */
void gck_threads_release(struct gck_held *h);

/* Read all held threads into img->threads (the main thread first) and img->pending. */
int gck_threads_read(const struct gck_held *h, const struct gck_target *t, struct gck_image *img,
		     struct gck_obstacles *f, struct gck_error *err) GCK_MUST_CHECK;

/* Have the kernel restart the call that the stop of a thread has interrupted, unless a handler runs
 * first, where it would return EINTR although there is no handler. It does so also if we die. -1
 * with errno. */
int gck_threads_spare_call(pid_t tid);

/* Set the registers of threads whose system call the freeze interrupted: the call is made again, or
 * returns EINTR. img->actions and all pending signals must be known. */
void gck_threads_restart_calls(struct gck_image *img, const struct gck_held *h,
			const struct gck_target *t);

/* credentials.c: of the process, whose /proc/PID/status is given; and of its threads. */
void gck_check_credentials(struct gck_scan *s, const char *status);
int gck_scan_credentials(struct gck_scan *s) GCK_MUST_CHECK;

/* ---- restore ------------------------------------------------------------------------------- */

/* Make the image's threads, and one for the shim's helper, and set up their kernel state. All are
 * stopped. The image's rtid gets their new TIDs. */
int gck_restore_threads(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Set the registers of all threads and let them run. */
int gck_restore_start(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

#endif
