/* SPDX-License-Identifier: Apache-2.0
 * System calls made by a held thread, whatever program it runs. */
#ifndef GCK_BORROW_H
#define GCK_BORROW_H

#include "shim/process/threads/threads.h"

enum gck_borrow_use {
	GCK_BORROW_FIRST = 1, /* args[0] is the kept result */
	GCK_BORROW_FIFTH = 2, /* args[4] is */
	GCK_BORROW_KEEP = 4,  /* this call's result is kept */
};

struct gck_borrowed_call {
	uint64_t nr, args[6];
	uint64_t use;         /* enum gck_borrow_use. With a kept result that is an error, the
			       * call is not made */
};

#define GCK_BORROW_MAX 8

/* Have a held thread make n calls, with all signals blocked. frame: memory of the process that
 * nothing uses, of GCK_BORROW_FRAME bytes; 0: there is none yet, and n must be 1. results: what
 * the calls return; may be NULL. */
#define GCK_BORROW_FRAME 1024
int gck_borrow(struct gck_target *t, struct gck_held_thread *x, uint64_t frame,
	       const struct gck_borrowed_call *calls, size_t n, int64_t *results,
	       struct gck_error *err) GCK_MUST_CHECK;

/* With all threads held: remove the code that a worker has left, which was killed in between.
 * EAGAIN: a thread runs it still. */
int gck_borrow_clean(struct gck_target *t, const struct gck_held *h,
		     struct gck_error *err) GCK_MUST_CHECK;

#endif
