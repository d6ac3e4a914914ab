/* SPDX-License-Identifier: Apache-2.0
 * What the interposed functions of libc's threads share. */
#ifndef GCK_PRELOAD_THREADS_H
#define GCK_PRELOAD_THREADS_H

#include <pthread.h>
#include <stdint.h>

#include "shim/preload/helper/state.h"

/* This process is a rank: keep account of alternate signal stacks from here on. */
void gck_altstack_begin(void);

#define GCK_SIGCANCEL 32 /* glibc's own; the next one is, too */

/* The kernel's TID of a thread that is known to libc by another; 0: it is libc's business. */
int32_t gck_kernel_tid(pthread_t thread);

/* In a new thread: an earlier one of the same pthread_t may have been cancelled. */
void gck_cancel_forget(void);

/* Where glibc keeps a thread's TID: on x86-64 a pthread_t is the thread's fs_base. */
static inline int32_t *gck_tid_of(pthread_t thread)
{
	return (int32_t *)(thread + gck_state.tid_offset);
}

#endif
