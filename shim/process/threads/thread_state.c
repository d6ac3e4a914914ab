/* SPDX-License-Identifier: Apache-2.0
 * Reading a stopped thread: registers, signals, scheduling, and its other kernel state. */
#include "config.h"

#include <elf.h>
#include <linux/futex.h>
#include <linux/ioprio.h>
#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/threads/threads.h"
#include "shim/sender.h"

#define XSTATE_MAX 65536
#define PENDING_ROOM 64
#define AFFINITY_ROOM 8192
#define CS_32BIT 0x23
#define ROBUST_MAX 256

/* ptrace without glibc's variable arguments. */
static long trace(enum __ptrace_request request, pid_t tid, uint64_t address, void *data)
{
	return syscall(SYS_ptrace, request, tid, address, data);
}

static int read_registers(pid_t tid, struct gck_thread *x, struct gck_error *err)
{
	unsigned char buffer[XSTATE_MAX];
	struct iovec regs = {&x->regs, sizeof(x->regs)}, state = {buffer, sizeof(buffer)};

	if (trace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &regs) ||
	    trace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &state))
		return gck_fail(err, errno, "cannot read the registers of thread %d: %s", (int)tid,
				strerror(errno));
	x->xstate = malloc(state.iov_len);
	if (!x->xstate)
		return gck_fail(err, ENOMEM, "out of memory for registers");
	x->xstate_size = state.iov_len;
	memcpy(x->xstate, buffer, state.iov_len);
	return 0;
}

/* Signals that stop a process: of the rank's lease, or of `scontrol suspend`. Nobody would continue
 * the restored rank. SIGCONT drops them, too. */
static bool is_stop(const struct gck_pending *p)
{
	int signal;

	memcpy(&signal, p->info, sizeof(signal));
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* The sender by the program's number. */
static struct gck_pending of_program(const struct gck_target *t, struct gck_pending p)
{
	siginfo_t info;

	memcpy(&info, p.info, sizeof(info));
	if (gck_has_sender(&info))
		info.si_pid = gck_target_vtid(t, info.si_pid);
	memcpy(p.info, &info, sizeof(info));
	return p;
}

static int add_pending(const struct gck_target *t, struct gck_pending **v, size_t *n,
		       const struct gck_pending *infos, size_t more, struct gck_error *err)
{
	struct gck_pending *grown = realloc(*v, (*n + more) * sizeof(**v));

	if (!grown)
		return gck_fail(err, ENOMEM, "out of memory for pending signals");
	*v = grown;
	for (size_t i = 0; i < more; i++)
		if (!is_stop(&infos[i]))
			grown[(*n)++] = of_program(t, infos[i]);
	return 0;
}

/* Read signals queued for the thread, or for the process. */
static int read_pending(const struct gck_target *t, pid_t tid, bool shared,
			struct gck_pending **v, size_t *n, struct gck_error *err)
{
	struct gck_pending infos[PENDING_ROOM];
	struct __ptrace_peeksiginfo_args args = {
		.flags = shared ? PTRACE_PEEKSIGINFO_SHARED : 0, .nr = PENDING_ROOM};
	long got;

	while ((got = trace(PTRACE_PEEKSIGINFO, tid, (uintptr_t)&args, infos)) > 0) {
		if (add_pending(t, v, n, infos, (size_t)got, err))
			return -1;
		args.off += (uint64_t)got;
	}
	if (got < 0)
		return gck_fail(err, errno, "cannot read the pending signals of thread %d: %s",
				(int)tid, strerror(errno));
	return 0;
}

/* Abort a restartable sequence that the thread is in, as any preemption does: the kernel of a
 * restored thread would not know of it. */
static void leave_sequence(pid_t pid, struct gck_thread *x)
{
	struct rseq_cs cs;
	uint64_t address = 0;

	if (x->rseq.address &&
	    !gck_memory_read(pid, x->rseq.address + offsetof(struct rseq, rseq_cs), &address,
			     sizeof(address), NULL) &&
	    address && !gck_memory_read(pid, address, &cs, sizeof(cs), NULL) &&
	    x->regs.rip - cs.start_ip < cs.post_commit_offset)
		x->regs.rip = cs.abort_ip;
}

static int read_registered(pid_t pid, pid_t tid, struct gck_thread *x, struct gck_error *err)
{
	struct __ptrace_rseq_configuration rseq = {0};
	void *head = NULL;
	size_t size = 0;

	if (trace(PTRACE_GETSIGMASK, tid, sizeof(x->sigmask), &x->sigmask))
		return gck_fail(err, errno, "cannot read the signal mask of thread %d: %s",
				(int)tid, strerror(errno));
	if (trace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(rseq), &rseq) > 0) {
		x->rseq.address = rseq.rseq_abi_pointer;
		x->rseq.size = rseq.rseq_abi_size;
		x->rseq.signature = rseq.signature;
	}
	if (syscall(SYS_get_robust_list, tid, &head, &size))
		return gck_fail(err, errno, "cannot read the robust list of thread %d: %s",
				(int)tid, strerror(errno));
	x->robust_head = (uintptr_t)head;
	x->robust_size = size;
	leave_sequence(pid, x);
	return 0;
}

static int read_schedule(pid_t tid, struct gck_thread *x, struct gck_error *err)
{
	unsigned char mask[AFFINITY_ROOM];
	struct sched_param parameter = {0};
	long n = syscall(SYS_sched_getaffinity, tid, sizeof(mask), mask);

	if (n < 0)
		return gck_fail(err, errno, "cannot read the affinity of thread %d: %s", (int)tid,
				strerror(errno));
	x->affinity = malloc((size_t)n);
	if (!x->affinity)
		return gck_fail(err, ENOMEM, "out of memory for the affinity");
	x->affinity_size = (size_t)n;
	memcpy(x->affinity, mask, (size_t)n);
	x->nice = getpriority(PRIO_PROCESS, (id_t)tid);
	x->policy = sched_getscheduler(tid);
	if (x->policy < 0)
		x->policy = SCHED_OTHER;
	if (!sched_getparam(tid, &parameter))
		x->priority = parameter.sched_priority;
	if (syscall(SYS_sched_getattr, tid, &x->sched, sizeof(x->sched), 0))
		x->sched.size = 0;
	n = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, tid);
	x->io_priority = n > 0 ? (int32_t)n : 0;
	return 0;
}

static void read_name(const struct gck_target *t, pid_t tid, struct gck_thread *x)
{
	char file[48], *text;

	snprintf(file, sizeof(file), "task/%d/comm", (int)tid);
	text = gck_proc_read(t->proc, file, NULL, NULL);
	if (text)
		snprintf(x->name, sizeof(x->name), "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
}

/* Refuse AMX tiles in use: no restore sets them up, so every node would refuse the image. */
static void check_tiles(const struct gck_thread *x, const char *object, struct gck_obstacles *f)
{
	uint64_t used = 0;

	if (x->xstate_size >= GCK_XSTATE_BV_AT + sizeof(used))
		memcpy(&used, x->xstate + GCK_XSTATE_BV_AT, sizeof(used));
	if (used & GCK_XSTATE_TILES)
		gck_obstacle_add(f, true, object,
				 "release them (TILERELEASE) when they are not in use, or try "
				 "again",
				 "it has AMX tiles in use");
}

static void find_altstack(const struct gck_shim_state *s, struct gck_thread *x)
{
	x->altstack.flags = 2; /* SS_DISABLE */
	for (uint32_t i = 0; i < s->naltstacks; i++)
		if (x->regs.fs_base && s->altstacks[i].fs_base == x->regs.fs_base) {
			x->altstack.sp = s->altstacks[i].sp;
			x->altstack.size = s->altstacks[i].size;
			x->altstack.flags = s->altstacks[i].flags;
		}
}

/* Get the preload's data on the thread, by its fs_base. */
static void find_identity(const struct gck_target *t, pid_t tid, struct gck_thread *x,
			  const char *object, struct gck_obstacles *f)
{
	const struct gck_shim_state *s = t->shim;
	int32_t value = 0;

	x->tid_address = x->regs.fs_base + (uint64_t)s->tid_offset;
	if (!x->regs.fs_base ||
	    gck_memory_read(t->pid, x->tid_address, &value, sizeof(value), NULL) ||
	    (value != x->vtid && value != tid))
		gck_obstacle_add(f, true, object, "use pthread_create",
			 "it was not made by pthread_create, so its state is not known");
	else
		x->vtid = value;
	find_altstack(s, x);
}

static void read_identity(const struct gck_target *t, const struct gck_held_thread *h,
			  struct gck_thread *x, struct gck_obstacles *f)
{
	char object[64];

	x->rtid = h->tid;
	x->vtid = gck_target_vtid(t, h->tid);
	snprintf(object, sizeof(object), "thread %d (%s)", (int)h->tid, x->name);
	if (h->asked) {
		x->tid_address = h->tid_address;
		x->altstack.sp = h->altstack.sp;
		x->altstack.size = h->altstack.size;
		x->altstack.flags = h->altstack.flags;
	} else {
		find_identity(t, h->tid, x, object, f);
	}
	check_tiles(x, object, f);
	if (x->regs.cs == CS_32BIT)
		gck_obstacle_add(f, true, object, "use 64-bit code", "it runs 32-bit code");
}

/* Report held or awaited priority-inheritance futexes: the kernel's TID owns them, and a restore
 * changes it. Only those can be found for which the thread waits, and robust ones that it holds
 * (bit 0 of the entry). */
static void check_futexes(const struct gck_target *t, const struct gck_thread *x,
			  struct gck_obstacles *f)
{
	uint64_t op = x->regs.rsi & FUTEX_CMD_MASK, entry = 0;
	bool found = x->regs.orig_rax == SYS_futex &&
		     (op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2 || op == FUTEX_WAIT_REQUEUE_PI);
	char object[64];

	if (x->robust_head && gck_memory_read(t->pid, x->robust_head, &entry, sizeof(entry), NULL))
		entry = 0;
	for (int i = 0; i < ROBUST_MAX && !found && entry && entry != x->robust_head; i++) {
		found = entry & 1;
		if (gck_memory_read(t->pid, entry & ~1ull, &entry, sizeof(entry), NULL))
			break;
	}
	snprintf(object, sizeof(object), "thread %d (%s)", (int)x->rtid, x->name);
	if (found)
		gck_obstacle_add(f, true, object, "use mutexes without PTHREAD_PRIO_INHERIT",
			 "it holds or waits for a priority-inheritance mutex");
}

static int read_thread(const struct gck_held_thread *h, const struct gck_target *t,
		       struct gck_thread *x, struct gck_obstacles *f, struct gck_error *err)
{
	if (read_registers(h->tid, x, err) || read_registered(t->pid, h->tid, x, err) ||
	    read_schedule(h->tid, x, err))
		return -1;
	if (h->signal && add_pending(t, &x->pending, &x->npending, &h->info, 1, err))
		return -1;
	read_name(t, h->tid, x);
	read_identity(t, h, x, f);
	check_futexes(t, x, f);
	return read_pending(t, h->tid, false, &x->pending, &x->npending, err);
}

int gck_threads_read(const struct gck_held *h, const struct gck_target *t, struct gck_image *img,
		     struct gck_obstacles *f, struct gck_error *err)
{
	size_t next = 1;

	img->threads = calloc(h->n + 1, sizeof(*img->threads));
	if (!img->threads)
		return gck_fail(err, ENOMEM, "out of memory for the threads");
	for (size_t i = 0; i < h->n; i++) {
		size_t at = h->v[i].tid == t->pid ? 0 : next;

		if (at && gck_exclusions_thread(&t->excluded, h->v[i].tid))
			continue;
		next += at != 0;
		img->nthreads = next;
		if (at >= h->n)
			return gck_fail(err, ESRCH, "the main thread has ended");
		if (read_thread(&h->v[i], t, &img->threads[at], f, err))
			return -1;
	}
	return read_pending(t, t->pid, true, &img->pending, &img->npending, err);
}
