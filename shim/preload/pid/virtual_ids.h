/* SPDX-License-Identifier: Apache-2.0
 * Virtual PIDs and TIDs. A restored rank keeps the numbers of its first start, which libc has
 * cached and the program may have stored, while the kernel's numbers are others. The tables are
 * empty until the rank's first restore. All functions are async-signal-safe and leave errno
 * alone. */
#ifndef GCK_PRELOAD_VIRTUAL_IDS_H
#define GCK_PRELOAD_VIRTUAL_IDS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/preload/helper/raw.h"
#include "shim/preload/helper/state.h"

#define GCK_EXPORT __attribute__((visibility("default")))
#define GCK_LIKELY(x) __builtin_expect(!!(x), 1)

/* In a rank that was never restored, interposed functions cost only this branch. */
static inline bool gck_is_original(void)
{
	return GCK_LIKELY(!gck_state.restarts);
}

/* Whether this is the rank itself, and not a child that has its memory. */
bool gck_is_rank(void);

/* Convert a PID, or a process group as a negative number; only the rank's own is virtual. Children
 * know their parent by it, too. */
int32_t gck_pid_to_kernel(int32_t pid);
int32_t gck_pid_to_program(int32_t pid);

int32_t gck_tid_to_kernel(int32_t tid);
int32_t gck_tid_to_program(int32_t tid);

/* In a new thread of a rank that has virtual TIDs: if the kernel gave it a number that is another
 * thread's virtual TID, give it one that the kernel never uses. */
void gck_tid_make_unique(void);

/* Convert a raw result to libc's: errno and -1. */
static inline long gck_result(long r)
{
	if (GCK_LIKELY((unsigned long)r < -4095ul))
		return r;
	errno = -r;
	return -1;
}

#endif
