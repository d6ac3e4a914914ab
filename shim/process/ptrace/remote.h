/* SPDX-License-Identifier: Apache-2.0
 * System calls made by another process's threads, by ptrace. Only for a process that is being
 * rebuilt: if its tracer dies in the middle, it dies too (EXITKILL).
 *
 * A "plant" in the target is a page of code that runs a list of calls and then traps, and scratch
 * memory for the list and for the calls' arguments. */
#ifndef GCK_REMOTE_H
#define GCK_REMOTE_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "common/base/error.h"
#include "shim/link.h"

#define GCK_REMOTE_CALLS 512                /* in one batch */
#define GCK_REMOTE_SCRATCH (128u * 1024)
#define GCK_REMOTE_PLANT (4096u + GCK_REMOTE_CALLS * 64u + GCK_REMOTE_SCRATCH)

struct gck_remote {
	pid_t pid;                     /* the process; its main thread makes most calls */
	struct user_regs_struct base;  /* segment registers and flags of the main thread */
	uint64_t plant;                /* address of the plant, 0: none yet */
	uint64_t scratch;              /* GCK_REMOTE_SCRATCH bytes for the callers' use */
};

struct gck_batch {
	struct gck_link_call calls[GCK_REMOTE_CALLS];
	unsigned n;
};

/* Seize the main thread and stop it. From then on it dies with the tracer and takes no signal. */
int gck_remote_seize(struct gck_remote *r, pid_t pid, struct gck_error *err) GCK_MUST_CHECK;

/* Seize and stop another thread of the process, only for gck_remote_exit. */
int gck_remote_seize_thread(pid_t tid, struct gck_error *err) GCK_MUST_CHECK;

/* Map a plant at this free address and use it from now on. The previous one stays mapped. */
int gck_remote_plant(struct gck_remote *r, uint64_t address, struct gck_error *err) GCK_MUST_CHECK;

/* Add a call with up to six arguments to a batch; returns its index. */
unsigned gck_batch_add_(struct gck_batch *b, long nr, const uint64_t args[6]);
#define gck_batch_add(b, nr, ...) gck_batch_add_(b, nr, (const uint64_t[6]){__VA_ARGS__})

/* Have thread tid run the batch, which may be empty, and fill in each call's result (-errno on
 * failure). -1 if the thread could not run it to its end. Threads that the batch makes are left
 * stopped at birth. */
int gck_remote_run(struct gck_remote *r, pid_t tid, struct gck_batch *b,
		   struct gck_error *err) GCK_MUST_CHECK;

/* Make one call. Its result, or -errno; -ESRCH with err filled if the thread could not make it. */
int64_t gck_remote_call_(struct gck_remote *r, pid_t tid, struct gck_error *err, long nr,
			 const uint64_t args[6]);
#define gck_remote_call(r, tid, err, nr, ...) \
	gck_remote_call_(r, tid, err, nr, (const uint64_t[6]){__VA_ARGS__})

/* Have the process, which has no other thread, execute this file. It stops before the new program's
 * first instruction, and has no plant. After a failure it is as before. */
int gck_remote_execute(struct gck_remote *r, const char *path,
		       struct gck_error *err) GCK_MUST_CHECK;

/* Wait until a thread that a batch made is stopped at its birth. */
int gck_remote_born(pid_t tid, struct gck_error *err) GCK_MUST_CHECK;

/* Make a stopped thread that is not the main thread exit, and wait for that. */
int gck_remote_exit(struct gck_remote *r, pid_t tid, struct gck_error *err) GCK_MUST_CHECK;

/* Make a process of one thread end with this wait status: an exit, or a signal whose action is the
 * default. No core is dumped. It is reaped, and its parent can wait for it. */
int gck_remote_end(struct gck_remote *r, int status, struct gck_error *err) GCK_MUST_CHECK;

/* Make one call that ends in a system call stop. Unlike a batch it raises no SIGTRAP, which would
 * reset that signal's action and take a pending one; and it may unmap the plant. Results as of
 * gck_remote_call. */
int64_t gck_remote_last_(struct gck_remote *r, pid_t tid, struct gck_error *err, long nr,
			 const uint64_t args[6]);
#define gck_remote_last(r, tid, err, nr, ...) \
	gck_remote_last_(r, tid, err, nr, (const uint64_t[6]){__VA_ARGS__})

/* 0 unless a call's result is an error. Then -1, and err says what failed and why. If the thread
 * could not make the call, err keeps the reason for that. */
int gck_remote_check(int64_t result, struct gck_error *err, const char *what,
		     ...) GCK_MUST_CHECK __attribute__((format(printf, 3, 4)));

/* Access the target's memory. -1, naming the address, unless all size bytes were copied. */
int gck_remote_read(const struct gck_remote *r, uint64_t address, void *data, size_t size,
		    struct gck_error *err) GCK_MUST_CHECK;
int gck_remote_write(const struct gck_remote *r, uint64_t address, const void *data, size_t size,
		     struct gck_error *err) GCK_MUST_CHECK;

#endif
