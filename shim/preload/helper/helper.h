/* SPDX-License-Identifier: Apache-2.0
 * The freestanding part of the preload: the link to the agent, and the helper thread that serves
 * it. Nothing in this folder may call libc or touch thread-local storage (no errno, no stack
 * protector): the helper has no TLS, and the other threads may be stopped while they hold any lock.
 * shim/preload/test/objects.sh checks the objects. Functions return -errno on failure. */
#ifndef GCK_PRELOAD_HELPER_H
#define GCK_PRELOAD_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/preload/helper/state.h"

/* Overrides flags that distributions add to CFLAGS, which come after ours. */
#ifndef __clang__
#pragma GCC optimize("no-stack-protector")
#endif

#define GCK_HELPER_STACK 65536 /* bytes below state->helper_stack_top; a guard page follows */

/* link.c -------------------------------------------------------------------------------------- */

/* Make a socket with a high descriptor, out of the program's way. Returns the fd. For a moment it
 * has a number that the program could expect to get, so make it once and keep it until it is
 * connected. */
int gck_link_socket(void) GCK_MUST_CHECK;

/* Connect to state->link, check that the listener has our own uid, and send HELLO. Only after
 * -ECONNREFUSED can the same socket be tried again. */
int gck_link_connect(int fd, bool reconnect) GCK_MUST_CHECK;

/* In a process that was forked: it does not use its parent's link, and may be traced as it may. As
 * all that runs in each child of a shell, this writes nothing that is right already: the first
 * write to a page would copy it. */
void gck_link_leave(void);

/* Whether fd is still the socket that gck_link_socket made: the program may have closed it. */
bool gck_link_is_ours(int fd);

/* Wait for the next packet and receive it, whole or not at all. passed: NULL, or gets a descriptor
 * in the packet (-1: none). 1; 0 at the end of the link; -EBADF if the program has closed or
 * replaced the fd. */
int gck_link_receive(int fd, struct gck_link_msg *m, int *passed) GCK_MUST_CHECK;

/* The same from any SEQPACKET socket; blocks unless flags has MSG_DONTWAIT. */
int gck_link_take(int fd, struct gck_link_msg *m, int *passed, int flags) GCK_MUST_CHECK;

/* Send a packet of a type with a number, and with m's calls if it has any. */
int gck_link_send(int fd, struct gck_link_msg *m, enum gck_link_type type, int32_t number);

/* The same without calls, and with a descriptor; give < 0: none. */
int gck_link_give(int fd, struct gck_link_msg *m, enum gck_link_type type, int32_t number,
		  int give);

/* checkpoint_requests.c ----------------------------------------------------------------------- */

/* Send ASK to the agent if calls of gck_checkpoint() wait. Any thread may call it. */
void gck_ask_send(void);

/* The same by the helper, regularly; not while the agent has not read the last one. */
void gck_ask_again(void);

/* Take the outcome of such calls. */
void gck_ask_outcome(const struct gck_link_outcome *t);

/* The link is up; it has been down for ms more; this is another process. */
void gck_ask_linked(void);
void gck_ask_away(unsigned ms);
void gck_ask_wake(void);

/* lease.c ------------------------------------------------------------------------------------- */

/* Have the kernel stop this process by SIGSTOP in so many ms, counted while the machine sleeps or
 * the process is frozen, unless the time is set again before. 0: not to. */
void gck_lease_set(uint32_t ms);

/* This is another process, without the timer. */
void gck_lease_forget(void);

/* clone.c ------------------------------------------------------------------------------------- */

/* Fork a clone that serves CALLS on life until its end of file; state->tracer may trace it. Returns
 * its pid. The first `number` calls of the message are madvise(MADV_DONTFORK) on memory that it
 * need not have, and that the program has not marked so; they are undone. It runs the others. */
long gck_clone_make(int life, struct gck_link_msg *m) GCK_MUST_CHECK;

/* This is another process: no clone is being forked in it. */
void gck_clone_forget(void);

/* Around a fork by the program, whose child must have all memory. The first waits while a clone is
 * forked, as when the agent has died meanwhile and the program runs. If it returns true, the other
 * is called in both processes. */
bool gck_fork_begin(void) GCK_MUST_CHECK;
void gck_fork_end(bool child);

/* A clone may be forked without all memory later, and not at once. */
void gck_fork_watch(void);

/* Kill and reap a clone. Only a child with an exit signal other than SIGCHLD is touched. Returns
 * the pid. */
long gck_clone_end(int32_t pid);

/* queue.c ------------------------------------------------------------------------------------- */

/* Copy a queue's messages to this memory, a struct gck_link_queue. */
long gck_queue_copy(int memory);

/* tracer.c ------------------------------------------------------------------------------------ */

/* Besides our ancestors let this process and its descendants trace us (GCK_TRACER_ANY: any of the
 * user's), and nobody else. */
void gck_tracer_allow(int32_t tracer);

#ifdef GCK_FAULTS
extern const char *gck_fault_dir; /* GPUCKPT_FAULT; NULL: none */
#endif

/* helper.c ------------------------------------------------------------------------------------ */

/* Run a packet's system calls, or a part of them, and fill in their results. */
void gck_helper_run(struct gck_link_msg *m, uint32_t from, uint32_t to);

/* Start the helper on state->helper_stack_top, with all signals blocked. It serves state->link_fd,
 * or connects if that is -1. Returns the thread's TID. */
long gck_helper_start(void) GCK_MUST_CHECK;

/* Have the helper end, and wait until it is gone for the kernel, too. False: it goes on, since the
 * process has other threads besides, or it did not end in time. Not to be called by two threads. */
bool gck_helper_end(void) GCK_MUST_CHECK;

/* Whether the helper must end: it was told to, or it is the last thread of a process whose main
 * thread has ended by exit(2), which it must not keep alive. */
bool gck_helper_must_end(void);

/* A thread of the program is about to end by exit(2) with this status. */
void gck_helper_note_exit(int status);

/* Entry point of a thread that becomes the helper; aligns its stack. Never returns. */
void gck_helper_entry(void);

#endif
