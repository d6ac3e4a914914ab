/* SPDX-License-Identifier: Apache-2.0
 * System calls that the freeze interrupted. In the rank the kernel restarts them or returns EINTR
 * when the thread is released. In the image this file decides, by the same rules (signal(7)): a
 * call is restarted, unless a signal with a handler comes first and the call then returns EINTR. */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>

#include "shim/process/threads/threads.h"
#include "shim/spared_call.h"

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTART_RESTARTBLOCK 516

int gck_threads_spare_call(pid_t tid)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r))
		return -1;
	return gck_call_spared(&r) && ptrace(PTRACE_SETREGS, tid, 0, &r) ? -1 : 0;
}

/* ---- restart_syscall ----------------------------------------------------------------------- */

/* An interrupted sleep or wait with a relative time limit continues as restart_syscall, and only
 * the kernel knows the call that this stands for. Its arguments are still in the registers, and the
 * code before the call loads its number. */

#define LOOK_BACK 48 /* bytes of code before the call */
#define LOAD_EAX 0xb8
#define CLOCKS 16
#define FDS (1u << 20) /* upper limit of a poll's descriptors */
#define FUTEX_OPTIONS (128u | 256u) /* FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME */
#define FUTEX_BITSET 9u

/* The calls that restart_syscall continues on x86-64. */
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

/* Whether the registers can hold this call's arguments. */
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

/* The number in the last "mov $NR, %eax" before the call, if it is one of these. */
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

static long restarted_call(pid_t pid, const struct user_regs_struct *regs)
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

/* ---- results of the interrupted calls ------------------------------------------------------ */

static int signal_of(const struct gck_pending *p)
{
	int signal;

	memcpy(&signal, p->info, sizeof(signal));
	return signal;
}

/* The pending signal that would run a handler first: like the kernel, the lowest. */
static int first_handled(const struct gck_image *img, const struct gck_thread *x,
			 const struct gck_pending *v, size_t n, bool taken)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int s = signal_of(&v[i]);

		if (s < 1 || s > 64 || img->actions[s].handler <= 1)
			continue;
		if ((x->sigmask >> (s - 1) & 1) && !(taken && i == 0))
			continue;
		if (!first || s < first)
			first = s;
	}
	return first;
}

static bool restarted(const struct gck_image *img, int64_t result, int signal)
{
	if (!signal || result == -ERESTARTNOINTR)
		return true;
	return result == -ERESTARTSYS && (img->actions[signal].flags & SA_RESTART);
}

/* Replace restart_syscall, which a restored thread cannot make, by the call itself, or by EINTR if
 * the call cannot be determined. */
static bool name_call(struct gck_thread *x, pid_t pid)
{
	long nr;

	if (x->regs.orig_rax != SYS_restart_syscall)
		return true;
	nr = restarted_call(pid, &x->regs);
	if (nr >= 0)
		x->regs.orig_rax = (uint64_t)nr;
	return nr >= 0;
}

static void restart_call(const struct gck_image *img, struct gck_thread *x, int signal, pid_t pid)
{
	int64_t result = (int64_t)x->regs.rax;

	if ((int64_t)x->regs.orig_rax < 0)
		return;
	if (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -GCK_ERESTARTNOHAND ||
	    result == -ERESTART_RESTARTBLOCK) {
		if (restarted(img, result, signal) && name_call(x, pid)) {
			x->regs.rax = x->regs.orig_rax;
			x->regs.rip -= 2;
		} else {
			x->regs.rax = (uint64_t)-EINTR;
		}
	}
	x->regs.orig_rax = (uint64_t)-1;
}

/* Begin again where a call with numbers of this start has not begun. */
static void leave_guard(const struct gck_shim_state *s, struct gck_thread *x)
{
	if (x->regs.rip > s->guard_check && x->regs.rip <= s->guard_call)
		x->regs.rip = s->guard_check;
}

/* Whether the thread was about to take its first pending signal. Then its mask, which may be the
 * one from before a sigsuspend, does not matter. */
static bool taken(const struct gck_held *h, const struct gck_thread *x)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].tid == x->rtid)
			return x->npending && h->v[i].signal == signal_of(x->pending);
	return false;
}

void gck_threads_restart_calls(struct gck_image *img, const struct gck_held *h,
			const struct gck_target *t)
{
	bool delivered = false; /* the process's signals go to the first thread that takes them */

	for (size_t i = 0; i < img->nthreads; i++) {
		struct gck_thread *x = &img->threads[i];
		int signal = first_handled(img, x, x->pending, x->npending, taken(h, x));

		if (!signal && !delivered) {
			signal = first_handled(img, x, img->pending, img->npending, false);
			delivered = signal != 0;
		}
		restart_call(img, x, signal, t->pid);
		leave_guard(t->shim, x);
	}
}
