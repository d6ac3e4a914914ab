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

/* In a rank that was never restored, interposed functions cost a comparison. */
static inline bool gck_is_original(void)
{
	return GCK_LIKELY(!gck_state.restarts);
}

/* Whether the state is this process's own, and not its parent's: as after vfork(), or after fork()
 * in a process that was never restored. */
bool gck_is_rank(void);

/* ---- numbers and restarts ------------------------------------------------------------------ */

/* The kernel's numbers are those of one start. A restart may come at any moment: also between the
 * translation of a number and the system call that uses it, or between a call that returned one and
 * its translation. So whoever translates notes the start before, and begins again where another has
 * come. */
static inline uint32_t gck_start(void)
{
	return __atomic_load_n(&gck_state.restarts, __ATOMIC_ACQUIRE);
}

/* No result of a system call that returns no address. */
#define GCK_STALE (-4096)

/* A system call with numbers that were translated in this start. GCK_STALE, without the call, in
 * any other. The capture moves a thread from between comparison and call back to the comparison. */
long gck_raw_in(uint32_t start, long nr, long a, long b, long c, long d, long e, long f);

#define gck_call_in_(start, nr, a, b, c, d, e, f, ...) \
	gck_raw_in(start, nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define gck_call_in(start, ...) gck_call_in_(start, __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* ---- the table ----------------------------------------------------------------------------- */

/* Convert a PID, a TID, or a process group as a negative number: those of the process and its
 * threads, and of all processes that were restored with it. */
int32_t gck_id_to_kernel(int32_t id);
int32_t gck_id_to_program(int32_t id);

/* In a new thread of a rank that has virtual TIDs: if the kernel gave it a number that is another
 * thread's virtual TID, give it one that the kernel never uses. */
void gck_tid_make_unique(void);

/* In a new child: it leaves its parent's link, and has a number and a table of its own. */
void gck_child_begin(void);

/* The number of a child that was made since `start`; returns its number for the program. */
int32_t gck_child_make_unique(int32_t rpid, uint32_t start);

/* A child with these numbers was waited for. If it led a process group that still exists, they stay
 * known. */
void gck_child_forget(int32_t vpid, int32_t rpid);

/* Whether it is a child that was not waited for. */
bool gck_is_child(int32_t vpid);

/* Convert a raw result to libc's: errno and -1. */
static inline long gck_result(long r)
{
	if (GCK_LIKELY((unsigned long)r < -4095ul))
		return r;
	errno = -r;
	return -1;
}

#endif
