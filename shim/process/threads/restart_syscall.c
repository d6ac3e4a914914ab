/* SPDX-License-Identifier: Apache-2.0
 * Which call a thread in restart_syscall goes on with. A sleep or wait with a relative time limit
 * that is interrupted continues as restart_syscall, and only the kernel knows what that stands for;
 * at the next checkpoint in the same sleep its number is all that is seen. The arguments are still
 * in the registers, and the code in front of the call loads the number. */
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "shim/process/threads/threads.h"

#define LOOK_BACK 48 /* bytes of code in front of the call */
#define LOAD_EAX 0xb8
#define CLOCKS 16
#define FDS (1u << 20) /* that one poll may ask for */
#define FUTEX_OPTIONS (128u | 256u) /* FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME */
#define FUTEX_BITSET 9u

/* The calls that continue so on x86-64. */
static const long calls[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_poll, SYS_futex};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

static bool is_time(pid_t pid, uint64_t address)
{
	struct timespec x;

	return !gck_memory_read(pid, address, &x, sizeof(x), NULL) && x.tv_sec >= 0 &&
	       x.tv_nsec >= 0 && x.tv_nsec < 1000000000;
}

static bool is_there(pid_t pid, uint64_t address)
{
	char byte;

	return !gck_memory_read(pid, address, &byte, 1, NULL);
}

/* Could these be this call's arguments? */
static bool fits(pid_t pid, const struct user_regs_struct *r, long nr)
{
	uint64_t op = r->rsi & 0xffffffff & ~(uint64_t)FUTEX_OPTIONS;

	switch (nr) {
	case SYS_nanosleep:
		return is_time(pid, r->rdi) && (!r->rsi || is_there(pid, r->rsi));
	case SYS_clock_nanosleep:
		return (uint32_t)r->rdi < CLOCKS && !(uint32_t)r->rsi && is_time(pid, r->rdx);
	case SYS_poll:
		return r->rdx && r->rdx <= INT32_MAX && r->rsi < FDS &&
		       (!r->rsi || is_there(pid, r->rdi));
	default:
		return !(op && op != FUTEX_BITSET) && r->rdi % 4 == 0 && is_there(pid, r->rdi) &&
		       is_time(pid, r->r10);
	}
}

/* "mov $NR, %eax", the last before the call, with one of these numbers. */
static long by_code(pid_t pid, const struct user_regs_struct *r)
{
	unsigned char code[LOOK_BACK];

	if (gck_memory_read(pid, r->rip - 2 - LOOK_BACK, code, sizeof(code), NULL))
		return -1;
	for (size_t at = LOOK_BACK - 5; at > 0; at--) {
		uint32_t number;

		memcpy(&number, code + at + 1, sizeof(number));
		if (code[at] != LOAD_EAX || (code[at - 1] & 0xf0) == 0x40)
			continue;
		for (size_t i = 0; i < NCALLS; i++)
			if (number == calls[i] && fits(pid, r, calls[i]))
				return calls[i];
	}
	return -1;
}

long gck_restarted_call(pid_t pid, const struct user_regs_struct *regs)
{
	long found = by_code(pid, regs);

	for (size_t i = 0; i < NCALLS && found < 0; i++) {
		size_t others = 0;

		for (size_t k = 0; k < NCALLS; k++)
			others += k != i && fits(pid, regs, calls[k]);
		if (!others && fits(pid, regs, calls[i]))
			found = calls[i];
	}
	return found;
}
