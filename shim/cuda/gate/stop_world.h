/* SPDX-License-Identifier: Apache-2.0
 * A moment in which no other thread of the process runs. */
#ifndef GCK_CUDA_STOP_WORLD_H
#define GCK_CUDA_STOP_WORLD_H

#include <stdbool.h>

#include "common/base/error.h"

struct gck_cuda_stop_world;

#define GCK_CUDA_STOP_WORLD_PAUSE_MS 100

/* All other threads of the process stand still from here on, wherever they are: stopped as by a debugger, they and
 * what they wait for notice nothing, but that a few calls which wait in the kernel (epoll_wait, sigtimedwait,
 * semop, msgrcv: signal(7), "even in the absence of signal handlers") end with EINTR. Since a thread may have been
 * stopped with any lock in its hand, the caller may then do no more than read and write memory and make system
 * calls (gck_cuda_system). NULL: they could not be stopped within the time. One that somebody else traces (a
 * debugger; for a moment, the agent, after a restart) is waited for as long as traced_ms. */
struct gck_cuda_stop_world *gck_cuda_stop_world_begin(int limit_ms, int traced_ms, struct gck_error *err);

/* From here on the caller may do anything for a while; what waits for a thread that stands still waits no longer
 * than GCK_CUDA_STOP_WORLD_PAUSE_MS: then they are let go. */
void gck_cuda_stop_world_pause(struct gck_cuda_stop_world *s);

/* After a pause: do they still stand still? Then as before it; otherwise it is to be ended. */
bool gck_cuda_stop_world_again(struct gck_cuda_stop_world *s);

/* They go on. */
void gck_cuda_stop_world_end(struct gck_cuda_stop_world *s);

/* A system call as it is: no other library's idea of it, no errno. */
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
