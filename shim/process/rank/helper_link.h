/* SPDX-License-Identifier: Apache-2.0
 * Requests to the shim's helper thread in the rank (shim/link.h), and to a clone that it made: one
 * message and its answer, within timeout_ms. */
#ifndef GCK_HELPER_LINK_H
#define GCK_HELPER_LINK_H

#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

#define GCK_HELPER_MS 5000 /* time limit for the helper's answer */

/* Add a system call to a message; returns the place of its result. */
int64_t *gck_helper_call(struct gck_link_msg *m, long nr, uint64_t a, uint64_t b, uint64_t c,
			 uint64_t d);

/* Run the m->ncalls calls of m in the rank; results are in m. */
int gck_helper_calls(const struct gck_target *t, struct gck_link_msg *m, int timeout_ms,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Have the rank copy a queue's messages into this memory (struct gck_link_queue). Call it while all
 * who use the queue are held. */
int gck_helper_queue(const struct gck_target *t, int memory, int timeout_ms,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Get a userfaultfd of the rank's memory. Once this has returned, only we have a descriptor of it.
 * Call it while the rank is held. */
int gck_helper_userfaultfd(const struct gck_target *t, int timeout_ms, int *uffd,
			   struct gck_error *err) GCK_MUST_CHECK;

/* Fork a frozen clone, which runs the calls of `then` and lives until *life is closed: ask for it,
 * and, if that succeeded, wait until it is forked, so that several processes can fork at the same
 * time. Its memory is a copy then, but without these ranges, or with some of them (if there are
 * many; in an old rank). It can be read when it is ready; the rank need not be held until then. */
int gck_helper_ask_clone(const struct gck_target *t, const struct gck_ranges *without,
			 const struct gck_link_msg *then, int *life,
			 struct gck_error *err) GCK_MUST_CHECK;
int gck_helper_cloned(const struct gck_target *t, int timeout_ms, pid_t *clone,
		      struct gck_error *err) GCK_MUST_CHECK;
int gck_clone_ready(int life, int timeout_ms, struct gck_error *err) GCK_MUST_CHECK;

/* Have a clone run m's calls. fd (-1: none) is passed to it; the answer's m->pid is its number
 * there. Answers come in the order of the requests. */
int gck_clone_ask(pid_t clone, int life, struct gck_link_msg *m, int fd,
		  struct gck_error *err) GCK_MUST_CHECK;
int gck_clone_answer(pid_t clone, int life, struct gck_link_msg *m, uint32_t ncalls,
		     struct gck_error *err) GCK_MUST_CHECK;

int gck_helper_reap(const struct gck_target *t, pid_t clone, int timeout_ms,
		    struct gck_error *err);

#endif
