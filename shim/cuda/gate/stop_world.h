/* SPDX-License-Identifier: Apache-2.0
 * Stops all other threads of the process for a moment. */
#ifndef GCK_CUDA_STOP_WORLD_H
#define GCK_CUDA_STOP_WORLD_H

#include <stdbool.h>

#include "common/base/error.h"

struct gck_cuda_stop_world;

#define GCK_CUDA_STOP_WORLD_PAUSE_MS 100

/* Stop all other threads, wherever they are, as a debugger does. They do not notice, except that
 * a few blocking calls (epoll_wait, sigtimedwait, semop, msgrcv: see signal(7)) end with EINTR.
 * A thread may have been stopped while it holds any lock, so the caller may only read and write
 * memory and make system calls (gck_cuda_system). NULL: the threads could not be stopped within
 * limit_ms. A thread that another process traces (a debugger; for a moment, the agent after a
 * restart) is waited for up to traced_ms. */
struct gck_cuda_stop_world *gck_cuda_stop_world_begin(int limit_ms, int traced_ms,
						      struct gck_error *err) GCK_MUST_CHECK;

/* Allow the caller anything for a while. If a call of it waits for a stopped thread, all threads
 * are released after GCK_CUDA_STOP_WORLD_PAUSE_MS. */
void gck_cuda_stop_world_pause(struct gck_cuda_stop_world *s);

/* After a pause: true if the threads are still stopped, and the restriction holds again; else
 * call gck_cuda_stop_world_end. */
bool gck_cuda_stop_world_again(struct gck_cuda_stop_world *s) GCK_MUST_CHECK;

/* Release the threads. */
void gck_cuda_stop_world_end(struct gck_cuda_stop_world *s);

/* A raw system call: no library's wrapper, no errno. */
static inline long gck_cuda_system(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#endif
