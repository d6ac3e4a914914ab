/* SPDX-License-Identifier: Apache-2.0
 * Code that a stopped thread of a live process runs for us. It leaves the thread as it was by
 * itself, should we die; else we stop it at its end and set its registers: only then does the
 * kernel treat an interrupted system call as if nothing had happened. */
#ifndef GCK_STUB_H
#define GCK_STUB_H

#include <sys/user.h>

#include "shim/process/threads/threads.h"

struct gck_stub {
	struct user_regs_struct own;  /* the thread's registers */
	struct user_regs_struct back; /* the same as the code must leave them itself */
	uint64_t mask;                /* its blocked signals, which the code must leave, too */
};

int gck_stub_begin(const struct gck_held_thread *x, struct gck_stub *s,
		   struct gck_error *err) GCK_MUST_CHECK;

/* Run the code from these registers on until it has made so many system calls, and take the thread
 * back. The first blocks all signals, the last sets the mask. results: what they return; may be
 * NULL. -1 with EAGAIN: a signal that cannot be blocked came first, the code made fewer calls, or
 * one of them did not end. If that cannot be interrupted either, x->stopped is false: the thread
 * still runs the code. */
int gck_stub_run(const struct gck_target *t, struct gck_held_thread *x, const struct gck_stub *s,
		 const struct user_regs_struct *code, unsigned calls, int64_t *results,
		 struct gck_error *err) GCK_MUST_CHECK;

/* Write into the process's memory. */
int gck_stub_put(const struct gck_target *t, uint64_t address, const void *data, size_t size,
		 struct gck_error *err) GCK_MUST_CHECK;

#endif
