/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/threads/stub.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)
#define CALL_MS 2000      /* that a call of the code may take: a close may wait for a server */
#define INTERRUPT_MS 500  /* and until it is interrupted */
#define ERESTARTNOHAND 514

int gck_stub_put(const struct gck_target *t, uint64_t address, const void *data, size_t size,
		 struct gck_error *err)
{
	struct iovec here = {(void *)(uintptr_t)data, size};
	struct iovec there = {(void *)(uintptr_t)address, size};

	if (process_vm_writev(t->pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return gck_fail(err, EFAULT, "process %d: its memory cannot be written", (int)t->pid);
}

/* The call that a stop has interrupted, as far as the thread can tell without the kernel. */
static void restart(struct user_regs_struct *r)
{
	int64_t result = (int64_t)r->rax;

	if ((int64_t)r->orig_rax < 0 || result > -512 || result < -516)
		return;
	if (result == -ERESTARTNOHAND) {
		r->rax = (uint64_t)-EINTR;
		return;
	}
	r->rax = result == -516 ? SYS_restart_syscall : r->orig_rax;
	r->rip -= 2;
}

int gck_stub_begin(const struct gck_held_thread *x, struct gck_stub *s, struct gck_error *err)
{
	if (ptrace(PTRACE_SETOPTIONS, x->tid, 0, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_GETREGS, x->tid, 0, &s->own) ||
	    ptrace(PTRACE_GETSIGMASK, x->tid, sizeof s->mask, &s->mask))
		return gck_fail(err, errno, "reading registers of thread %d: %s", (int)x->tid,
				strerror(errno));
	s->back = s->own;
	restart(&s->back);
	return 0;
}

/* Whether the thread has come to a stop, or is gone. */
static bool has_stopped(pid_t tid, int *status)
{
	pid_t got = waitpid(tid, status, __WALL | WNOHANG);

	return got == tid || (got < 0 && errno != EINTR);
}

/* Let the thread run to its next stop. x->stopped: whether it has come to one, or is gone. */
static void go_on(struct gck_held_thread *x, int request, int ms, int *status)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	*status = 0;
	x->stopped = ptrace(request, x->tid, 0, 0) != 0;
	for (unsigned looks = 1; !x->stopped; looks++) {
		x->stopped = has_stopped(x->tid, status);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 > ms)
			return;
		if (!x->stopped)
			gck_threads_pause(looks);
	}
}

static bool is_at(int status, int stop)
{
	return WIFSTOPPED(status) && status >> 8 == stop;
}

/* Stop the thread before it leaves the call at whose end it is: the kernel then restarts the call
 * that its registers name, if that was interrupted. */
static int leave_call(struct gck_held_thread *x, int ms, int *status)
{
	if (ptrace(PTRACE_INTERRUPT, x->tid, 0, 0))
		return -1;
	go_on(x, PTRACE_CONT, ms, status);
	return x->stopped && is_at(*status, SIGTRAP | PTRACE_EVENT_STOP << 8) ? 0 : -1;
}

/* Interrupt a call that does not end. */
static void interrupt(struct gck_held_thread *x, int *status)
{
	go_on(x, PTRACE_INTERRUPT, INTERRUPT_MS, status);
	if (x->stopped && is_at(*status, SYSCALL_STOP))
		(void)!leave_call(x, INTERRUPT_MS, status);
}

static int run(struct gck_held_thread *x, unsigned calls, int64_t *results, int *status)
{
	for (unsigned i = 0; i < 2 * calls; i++) {
		struct user_regs_struct now;

		go_on(x, PTRACE_SYSCALL, CALL_MS, status);
		if (!x->stopped || !is_at(*status, SYSCALL_STOP))
			return -1;
		if (!results || i % 2 == 0)
			continue;
		if (ptrace(PTRACE_GETREGS, x->tid, 0, &now))
			return -1;
		results[i / 2] = (int64_t)now.rax;
	}
	return leave_call(x, CALL_MS, status);
}

/* A signal came first. It is the thread's when it is released. */
static void note_signal(struct gck_held_thread *x, int status)
{
	siginfo_t info;

	if (!WIFSTOPPED(status) || status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ||
	    ptrace(PTRACE_GETSIGINFO, x->tid, 0, &info))
		return;
	x->signal = WSTOPSIG(status);
	memcpy(&x->info, &info, sizeof x->info);
}

static int block(pid_t tid, uint64_t mask)
{
	return (int)ptrace(PTRACE_SETSIGMASK, tid, sizeof mask, &mask);
}

/* Signals are blocked once the code is set to run: only it sets the mask if we die. */
int gck_stub_run(const struct gck_target *t, struct gck_held_thread *x, const struct gck_stub *s,
		 const struct user_regs_struct *code, unsigned calls, int64_t *results,
		 struct gck_error *err)
{
	struct user_regs_struct first = *code, last = s->own;
	int status = 0, failed;

	first.orig_rax = ~0ull;
	failed = ptrace(PTRACE_SETREGS, x->tid, 0, &first) || block(x->tid, ~0ull) ||
		 run(x, calls, results, &status);
	if (!x->stopped)
		interrupt(x, &status);
	if (!x->stopped)
		return gck_fail(err, EAGAIN, "thread %d is in a system call that does not end; try "
				"again", (int)x->tid);
	if (failed) {
		note_signal(x, status);
		block(x->tid, s->mask);
	}
	if (ptrace(PTRACE_SETREGS, x->tid, 0, &last) || failed)
		return gck_fail(err, EAGAIN, "process %d cannot be asked for its state now; try "
				"again", (int)t->pid);
	return 0;
}
