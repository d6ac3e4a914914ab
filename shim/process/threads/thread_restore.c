/* SPDX-License-Identifier: Apache-2.0
 * Restore: threads. The main thread makes all others, and each sets up its own kernel state. The
 * shim's helper is one more thread, which starts from its beginning. All kernel TIDs are new; the
 * shim's table maps them to the TIDs that libc and the program know. */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/threads/threads.h"

#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
#define CLONES 512 /* in one batch */
#define SCHED_CAPACITY 1024 /* the highest clamp, which is none */
#define RSEQ_CS_AT 8 /* in struct rseq: the thread's current critical section */

struct rseq_cs {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* Of the i-th thread that is made: the image's after the main one, then the helper. */
static int32_t number_of(const struct gck_restore *r, size_t i)
{
	return i + 1 < r->img->nthreads ? r->img->threads[i + 1].vtid : 0;
}

/* Make n threads; they are stopped at birth. */
static int make_threads(struct gck_restore *r, pid_t *tids, size_t n, struct gck_error *err)
{
	struct gck_rebuild_clone ca[CLONES];
	struct gck_batch b;
	size_t made = 0;

	while (made < n) {
		for (b.n = 0; b.n < CLONES && made + b.n < n;) {
			uint64_t at = r->remote.scratch + b.n * sizeof ca[0];

			gck_rebuild_clone(r, &ca[b.n], at, number_of(r, made + b.n));
			ca[b.n].args.flags = THREAD_FLAGS;
			gck_batch_add(&b, SYS_clone3, at, sizeof ca[0].args);
		}
		if (gck_remote_write(&r->remote, r->remote.scratch, ca, b.n * sizeof ca[0], err) ||
		    gck_remote_run(&r->remote, r->remote.pid, &b, err))
			return -1;
		for (unsigned i = 0; i < b.n; i++, made++) {
			tids[made] = (pid_t)b.calls[i].result;
			if (gck_rebuild_cloned(r, tids[made], number_of(r, made), err) ||
			    gck_remote_born(tids[made], err))
				return gck_fail_in(err, "thread %zu of %zu", made + 1, n);
		}
	}
	return 0;
}

/* ---- state of one thread ------------------------------------------------------------------- */

/* A thread inside a restartable sequence continues at its abort handler, as after a preemption. */
static int abort_sequence(struct gck_restore *r, struct gck_thread *t, struct gck_error *err)
{
	uint64_t at = t->rseq.address + RSEQ_CS_AT, section, none = 0;
	struct rseq_cs cs;

	if (gck_remote_read(&r->remote, at, &section, sizeof section, err))
		return -1;
	if (!section)
		return 0;
	/* the descriptor may belong to a library that is gone */
	if (!gck_remote_read(&r->remote, section, &cs, sizeof cs, NULL) &&
	    t->regs.rip - cs.start < cs.length)
		t->regs.rip = cs.abort;
	return gck_remote_write(&r->remote, at, &none, sizeof none, err);
}

/* In a user namespace of the rank's own the process has had all rights (start/apart.h). */
static int drop_rights(struct gck_restore *r, pid_t tid, struct gck_error *err)
{
	const struct {
		struct __user_cap_header_struct header;
		struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
	} x = {{_LINUX_CAPABILITY_VERSION_3, 0}, {{0, 0, 0}}};
	uint64_t at = r->remote.scratch;

	if (!r->root->keeps_numbers || !geteuid())
		return 0;
	if (gck_remote_write(&r->remote, at, &x, sizeof x, err))
		return -1;
	return gck_remote_check(gck_remote_call(&r->remote, tid, err, SYS_capset, at,
						at + sizeof x.header),
				err, "it cannot give up its rights");
}

struct thread_setup {
	stack_t altstack;
	char name[16];
};

static int kernel_state(struct gck_restore *r, struct gck_thread *t, struct gck_error *err)
{
	uint64_t at = r->remote.scratch;
	struct thread_setup s = {{.ss_sp = (void *)(uintptr_t)t->altstack.sp,
				  .ss_flags = (int)t->altstack.flags,
				  .ss_size = t->altstack.size},
				 ""};
	struct gck_batch b;

	b.n = 0;
	memcpy(s.name, t->name, sizeof s.name);
	if (gck_remote_write(&r->remote, at, &s, sizeof s, err))
		return -1;
	gck_batch_add(&b, SYS_set_tid_address, t->tid_address);
	gck_batch_add(&b, SYS_prctl, PR_SET_NAME, at + offsetof(struct thread_setup, name));
	if (t->altstack.sp && !(t->altstack.flags & SS_DISABLE))
		gck_batch_add(&b, SYS_sigaltstack, at, 0);
	if (t->robust_head)
		gck_batch_add(&b, SYS_set_robust_list, t->robust_head, t->robust_size);
	if (t->rseq.address)
		gck_batch_add(&b, SYS_rseq, t->rseq.address, t->rseq.size, 0, t->rseq.signature);
	if (gck_remote_run(&r->remote, t->rtid, &b, err))
		return -1;
	for (unsigned i = 1; i < b.n; i++)
		if (b.calls[i].result)
			return gck_fail(err, (int)-b.calls[i].result, "system call %lld: %s",
					(long long)b.calls[i].nr,
					strerror((int)-b.calls[i].result));
	return 0;
}

/* The kernel takes an area of its own size; components that the image lacks are initial. */
static int set_xstate(const struct gck_restore *r, const struct gck_thread *t,
		      struct gck_error *err)
{
	struct iovec iov = {calloc(1, r->xstate_size), r->xstate_size};
	size_t n = t->xstate_size < r->xstate_size ? t->xstate_size : r->xstate_size;
	int failed;

	if (!iov.iov_base)
		return gck_fail(err, ENOMEM, "no memory for registers");
	memcpy(iov.iov_base, t->xstate, n);
	failed = ptrace(PTRACE_SETREGSET, t->rtid, NT_X86_XSTATE, &iov) != 0;
	free(iov.iov_base);
	return failed ? gck_fail(err, errno, "setting its vector registers: %s", strerror(errno))
		      : 0;
}

/* ---- CPUs and scheduling, as far as this node allows --------------------------------------- */

static void or_set(cpu_set_t *all, const struct gck_thread *t)
{
	for (int c = 0; c < CPU_SETSIZE && (size_t)c < t->affinity_size * 8; c++)
		if (t->affinity[c / 8] >> (c % 8) & 1)
			CPU_SET(c, all);
}

static int nth_cpu(const cpu_set_t *set, int n)
{
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET(c, set) && n-- == 0)
			return c;
	return -1;
}

/* Map the nth CPU of the rank's old set to the nth of its new set. A thread that could run on all
 * CPUs can again; so can all threads if there are fewer CPUs now. */
static void set_affinity(const struct gck_restore *r, const cpu_set_t *had,
			 const struct gck_thread *t)
{
	cpu_set_t own, now;
	int n = 0;

	CPU_ZERO(&own);
	CPU_ZERO(&now);
	or_set(&own, t);
	for (int c = 0; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, had))
			continue;
		if (CPU_ISSET(c, &own))
			CPU_SET(nth_cpu(&r->cpus, n), &now);
		n++;
	}
	if (CPU_EQUAL(&own, had) || CPU_COUNT(had) > CPU_COUNT(&r->cpus) || !CPU_COUNT(&own))
		now = r->cpus;
	sched_setaffinity(t->rtid, sizeof now, &now);
}

/* Deadlines and utilization clamps as well. A kernel without clamps reports 0 and 0. */
static bool set_attributes(const struct gck_thread *t)
{
	struct gck_sched_attr a = t->sched;

	if (a.util_max && (a.util_min || a.util_max != SCHED_CAPACITY))
		a.flags |= SCHED_FLAG_UTIL_CLAMP;
	return a.size && !syscall(SYS_sched_setattr, t->rtid, &a, 0);
}

static void set_scheduling(const struct gck_thread *t)
{
	struct sched_param p = {.sched_priority = t->priority};

	if (!set_attributes(t)) {
		sched_setscheduler(t->rtid, t->policy, &p);
		setpriority(PRIO_PROCESS, (id_t)t->rtid, t->nice);
	}
	if (t->io_priority)
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, t->rtid, t->io_priority);
}

static int set_up(struct gck_restore *r, struct gck_error *err)
{
	cpu_set_t had;

	CPU_ZERO(&had);
	for (size_t i = 0; i < r->img->nthreads; i++)
		or_set(&had, &r->img->threads[i]);
	for (size_t i = 0; i < r->img->nthreads; i++) {
		struct gck_thread *t = &r->img->threads[i];

		if ((t->rseq.address && abort_sequence(r, t, err)) || kernel_state(r, t, err) ||
		    drop_rights(r, t->rtid, err) || set_xstate(r, t, err))
			return gck_fail_in(err, "thread %d \"%s\"", t->vtid, t->name);
		set_affinity(r, &had, t);
		set_scheduling(t);
	}
	return 0;
}

int gck_restore_threads(struct gck_restore *r, struct gck_error *err)
{
	bool rank = r->root == r;
	size_t n = r->img->nthreads - !rank; /* all but the main thread; plus the rank's helper */
	pid_t *tids = calloc(n + 1, sizeof *tids);
	int failed;

	if (!tids)
		return gck_fail(err, ENOMEM, "no memory for %zu threads", n);
	failed = make_threads(r, tids, n, err);
	for (size_t i = 0; i < r->img->nthreads && !failed; i++) {
		struct gck_thread *x = &r->img->threads[i];

		x->before = x->rtid;
		x->rtid = i ? tids[i - 1] : r->remote.pid;
	}
	r->helper = rank ? tids[n - 1] : 0;
	free(tids);
	return failed || set_up(r, err) || (r->helper && drop_rights(r, r->helper, err)) ? -1 : 0;
}

/* ---- start --------------------------------------------------------------------------------- */

static int set_registers(pid_t tid, struct user_regs_struct regs, uint64_t mask,
			 struct gck_error *err)
{
	regs.orig_rax = ~0ull; /* no system call to restart: the image's registers make it again */
	if (ptrace(PTRACE_SETREGS, tid, 0, &regs))
		return gck_fail(err, errno, "setting registers of thread %d: %s", tid,
				strerror(errno));
	if (ptrace(PTRACE_SETSIGMASK, tid, sizeof mask, &mask))
		return gck_fail(err, errno, "setting signals of thread %d: %s", tid,
				strerror(errno));
	return 0;
}

static int set_helper(const struct gck_restore *r, struct gck_error *err)
{
	struct user_regs_struct regs = r->remote.base;

	regs.rip = r->helper_entry;
	regs.rax = 0;
	regs.rsp = r->helper_stack;
	regs.rbp = 0;
	regs.fs_base = regs.gs_base = 0;
	regs.eflags = 0x202;
	return set_registers(r->helper, regs, ~0ull, err);
}

/* A wait for a child or a group names it by the number that it had. */
static int set_waits(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nthreads; i++) {
		struct user_regs_struct *regs = &r->img->threads[i].regs;
		unsigned char code[2];

		if (regs->rax != SYS_waitid || (regs->rdi != P_PID && regs->rdi != P_PGID))
			continue;
		if (gck_remote_read(&r->remote, regs->rip, code, sizeof code, err))
			return -1;
		for (size_t k = 0; k < r->img->nchildren && code[0] == 0x0f && code[1] == 5; k++)
			if ((int32_t)regs->rsi == r->img->children[k].before) {
				regs->rsi = (uint64_t)r->img->children[k].rpid;
				break;
			}
	}
	return 0;
}

/* All registers are set first, so that failures come before anything runs. The main thread starts
 * last. */
int gck_restore_start(struct gck_restore *r, struct gck_error *err)
{
	if (set_waits(r, err) || (r->helper && set_helper(r, err)))
		return -1;
	for (size_t i = 0; i < r->img->nthreads; i++) {
		const struct gck_thread *t = &r->img->threads[i];

		if (set_registers(t->rtid, t->regs, t->sigmask, err))
			return -1;
	}
	if (r->helper && ptrace(PTRACE_DETACH, r->helper, 0, 0))
		return gck_fail(err, errno, "letting the helper go: %s", strerror(errno));
	/* threads that already run may end the process: that is the program's decision */
	for (size_t i = r->img->nthreads; i-- > 0;)
		if (ptrace(PTRACE_DETACH, r->img->threads[i].rtid, 0, 0) && errno != ESRCH)
			return gck_fail(err, errno, "letting thread %d go: %s",
					r->img->threads[i].rtid, strerror(errno));
	return 0;
}
