/* SPDX-License-Identifier: Apache-2.0
 * Raw system calls: gck_raw(SYS_x, arguments...) returns the kernel's result, -errno on failure,
 * and touches neither errno nor other thread-local storage. */
#ifndef GCK_PRELOAD_RAW_H
#define GCK_PRELOAD_RAW_H

#include <sys/syscall.h>

static inline long gck_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define gck_raw_(nr, a, b, c, d, e, f, ...) \
	gck_raw6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define gck_raw(...) gck_raw_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

#endif
