/* SPDX-License-Identifier: Apache-2.0
 * Virtual PIDs and TIDs: a restored rank goes on with the numbers of its first start, which libc
 * has cached and the program may have kept, while the kernel's are others. Nothing here is entered
 * before a rank was restored once. All functions are async-signal-safe and leave errno alone. */
#ifndef GCK_PRELOAD_VIRTUAL_IDS_H
#define GCK_PRELOAD_VIRTUAL_IDS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/preload/helper/raw.h"
#include "shim/preload/helper/state.h"

#define GCK_EXPORT __attribute__((visibility("default")))
#define GCK_LIKELY(x) __builtin_expect(!!(x), 1)

/* The one branch that everything interposed costs in a rank that was never restored. */
static inline bool gck_is_original(void)
{
	return GCK_LIKELY(!gck_state.restarts);
}

/* Whether this is the rank itself and not a child that has its memory. */
bool gck_is_rank(void);

/* Of a PID, or of a process group as a negative one: only the rank's own is virtual. Children know
 * their parent by it, too. */
int32_t gck_pid_to_kernel(int32_t pid);
int32_t gck_pid_to_program(int32_t pid);

int32_t gck_tid_to_kernel(int32_t tid);
int32_t gck_tid_to_program(int32_t tid);

/* In a new thread of a rank that has virtual TIDs: if the kernel gave it a number that another
 * thread is known by, give it one that the kernel never uses. */
void gck_tid_settle(void);

/* What libc makes of a raw result. */
static inline long gck_result(long r)
{
	if (GCK_LIKELY((unsigned long)r < -4095ul))
		return r;
	errno = -r;
	return -1;
}

#endif
