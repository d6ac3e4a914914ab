/* SPDX-License-Identifier: Apache-2.0
 * System calls made by another process's threads (see remote.h). */
#include "config.h"

#include "shim/process/ptrace/remote.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/proc/trace.h"

#define PLANT_CODE 4096u
#define PLANT_CALLS (GCK_REMOTE_CALLS * sizeof(struct gck_link_call))

#define TRACE_OPTIONS (PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD)
#define SYSCALL_STOP (SIGTRAP | 0x80)

static_assert(sizeof(struct gck_link_call) == 64, "the runner steps by 64");
static_assert(offsetof(struct gck_link_call, result) == 56, "the runner stores there");

/* rbx: the next call, r12: the end of the list. Uses no stack, and no memory but the list. */
__asm__(".pushsection .rodata\n"
	".globl gck_remote_runner, gck_remote_runner_end\n"
	".hidden gck_remote_runner, gck_remote_runner_end\n"
	"gck_remote_runner:\n"
	"1:	cmp %r12, %rbx\n"
	"	je 2f\n"
	"	mov (%rbx), %rax\n"
	"	mov 8(%rbx), %rdi\n"
	"	mov 16(%rbx), %rsi\n"
	"	mov 24(%rbx), %rdx\n"
	"	mov 32(%rbx), %r10\n"
	"	mov 40(%rbx), %r8\n"
	"	mov 48(%rbx), %r9\n"
	"	syscall\n"
	"	mov %rax, 56(%rbx)\n"
	"	add $64, %rbx\n"
	"	jmp 1b\n"
	"2:	int3\n"
	"gck_remote_runner_end:\n"
	".popsection\n");
extern const unsigned char gck_remote_runner[], gck_remote_runner_end[];

static int lost(pid_t tid, int status, struct gck_error *err)
{
	if (WIFSIGNALED(status))
		return gck_fail(err, ESRCH,
				"thread %d was killed by signal %d while it was rebuilt", tid,
				WTERMSIG(status));
	if (WIFEXITED(status))
		return gck_fail(err, ESRCH, "thread %d exited (status %d) while it was rebuilt",
				tid, WEXITSTATUS(status));
	return gck_fail(err, EIO, "thread %d stopped by signal %d while it was rebuilt", tid,
			WSTOPSIG(status));
}

static int reap(pid_t tid, int *status, struct gck_error *err)
{
	while (waitpid(tid, status, __WALL) != tid)
		if (errno != EINTR)
			return gck_fail(err, errno, "waiting for thread %d: %s", tid,
					strerror(errno));
	return 0;
}

/* Wait for a thread whose process is killed. The main thread can be waited for only after the other
 * threads that we trace are reaped. (__WCLONE: only tracees.) */
static int wait_status(pid_t tid, int *status, struct gck_error *err)
{
	for (;;) {
		siginfo_t one = {0};
		int other;

		if (waitid(P_ALL, 0, &one, WEXITED | WSTOPPED | WNOWAIT | __WCLONE)) {
			if (errno != EINTR)
				return gck_fail(err, errno, "waiting for thread %d: %s", tid,
						strerror(errno));
		} else if (one.si_pid == tid || one.si_code == CLD_TRAPPED ||
			   one.si_code == CLD_STOPPED) {
			return reap(tid, status, err);
		} else if (reap(one.si_pid, &other, err)) {
			return -1;
		}
	}
}

/* Let the thread run until it stops with `stop`. All signals are blocked, so only SIGSTOP comes
 * through. It is passed on (the kernel stops the thread again after the detach) and skipped
 * here. */
static int resume_until(int request, int stop, pid_t tid, struct gck_error *err)
{
	int status, pass = 0;

	for (;;) {
		if (ptrace(request, tid, 0, pass))
			return gck_fail(err, errno, "resuming thread %d: %s", tid, strerror(errno));
		if (wait_status(tid, &status, err))
			return -1;
		if (!WIFSTOPPED(status))
			return lost(tid, status, err);
		if (WSTOPSIG(status) == stop && status >> 16 == 0)
			return 0;
		if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
			return lost(tid, status, err);
		pass = status >> 16 ? 0 : SIGSTOP;
	}
}

static int block_signals(pid_t tid, struct gck_error *err)
{
	uint64_t all = ~0ull;

	if (ptrace(PTRACE_SETSIGMASK, tid, sizeof all, &all))
		return gck_fail(err, errno, "blocking signals of thread %d: %s", tid,
				strerror(errno));
	return 0;
}

int gck_remote_born(pid_t tid, struct gck_error *err)
{
	int status;

	if (wait_status(tid, &status, err))
		return -1;
	return WIFSTOPPED(status) ? 0 : lost(tid, status, err);
}

int gck_remote_seize_thread(pid_t tid, struct gck_error *err)
{
	if (gck_trace_seize(tid, TRACE_OPTIONS))
		return gck_fail(err, errno,
				"cannot trace process %d: %s: it has to be of the same "
				"user and allow it (PR_SET_PTRACER)",
				tid, strerror(errno));
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return gck_fail(err, errno, "stopping thread %d: %s", tid, strerror(errno));
	return gck_remote_born(tid, err) ? -1 : block_signals(tid, err);
}

int gck_remote_seize(struct gck_remote *r, pid_t pid, struct gck_error *err)
{
	struct gck_remote n = {.pid = pid};

	if (gck_remote_seize_thread(pid, err))
		return -1;
	if (ptrace(PTRACE_GETREGS, pid, 0, &n.base))
		return gck_fail(err, errno, "reading registers of %d: %s", pid, strerror(errno));
	n.base.orig_rax = ~0ull;
	*r = n;
	return 0;
}

int gck_remote_read(const struct gck_remote *r, uint64_t address, void *data, size_t size,
		    struct gck_error *err)
{
	struct iovec here = {data, size}, there = {(void *)(uintptr_t)address, size};

	if (process_vm_readv(r->pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return gck_fail(err, errno ? errno : EFAULT, "reading %zu bytes at %#llx of process %d: %s",
			size, (unsigned long long)address, r->pid, strerror(errno));
}

int gck_remote_write(const struct gck_remote *r, uint64_t address, const void *data, size_t size,
		     struct gck_error *err)
{
	struct iovec here = {(void *)(uintptr_t)data, size};
	struct iovec there = {(void *)(uintptr_t)address, size};

	if (process_vm_writev(r->pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return gck_fail(err, errno ? errno : EFAULT, "writing %zu bytes at %#llx of process %d: %s",
			size, (unsigned long long)address, r->pid, strerror(errno));
}

static int set_regs(pid_t tid, const struct user_regs_struct *regs, struct gck_error *err)
{
	struct user_regs_struct copy = *regs;

	if (ptrace(PTRACE_SETREGS, tid, 0, &copy))
		return gck_fail(err, errno, "setting registers of thread %d: %s", tid,
				strerror(errno));
	return 0;
}

/* Make one call through a syscall instruction at insn. */
static int call_at(struct gck_remote *r, pid_t tid, uint64_t insn, long nr, const uint64_t args[6],
		   int64_t *result, struct gck_error *err)
{
	struct user_regs_struct regs = r->base;

	regs.rip = insn;
	regs.rax = nr;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if (set_regs(tid, &regs, err) ||
	    resume_until(PTRACE_SYSCALL, SYSCALL_STOP, tid, err) ||
	    resume_until(PTRACE_SYSCALL, SYSCALL_STOP, tid, err))
		return -1;
	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return gck_fail(err, errno, "reading registers of %d: %s", tid, strerror(errno));
	*result = regs.rax;
	return 0;
}

/* Offset of a syscall instruction in some code; size if there is none. */
static size_t syscall_in(const unsigned char *code, size_t size)
{
	size_t i = 0;

	while (i + 1 < size && (code[i] != 0x0f || code[i + 1] != 0x05))
		i++;
	return i + 1 < size ? i : size;
}

static uint64_t syscall_at(const struct gck_remote *r, uint64_t start, uint64_t end)
{
	unsigned char code[4096];

	for (; start < end; start += sizeof code) {
		size_t at;

		if (gck_remote_read(r, start, code, sizeof code, NULL))
			return 0;
		at = syscall_in(code, sizeof code);
		if (at < sizeof code)
			return start + at;
	}
	return 0;
}

/* Find the first syscall instruction in the process: in a previous plant, or in the vdso. */
static uint64_t find_syscall(const struct gck_remote *r)
{
	char path[64], line[512], perms[5];
	unsigned long start, end;
	uint64_t found = 0;
	FILE *f;

	if (r->plant)
		return r->plant + syscall_in(gck_remote_runner,
					     (size_t)(gck_remote_runner_end - gck_remote_runner));
	snprintf(path, sizeof path, "/proc/%d/maps", r->pid);
	if (!(f = fopen(path, "re")))
		return 0;
	while (!found && fgets(line, sizeof line, f))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3)
			found = syscall_at(r, start, end);
	fclose(f);
	return found;
}

int gck_remote_plant(struct gck_remote *r, uint64_t address, struct gck_error *err)
{
	uint64_t insn = find_syscall(r);
	int64_t result;

	if (!insn)
		return gck_fail(err, ENOEXEC,
				"process %d has no system call instruction in its vdso", r->pid);
	if (call_at(r, r->pid, insn, SYS_mmap,
		    (uint64_t[6]){address, GCK_REMOTE_PLANT, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1},
		    &result, err))
		return -1;
	if (result != (int64_t)address)
		return gck_fail(err, ENOMEM, "no place for the restorer at %#llx of process %d: %s",
				(unsigned long long)address, r->pid, strerror((int)-result));
	if (gck_remote_write(r, address, gck_remote_runner,
			     gck_remote_runner_end - gck_remote_runner, err) ||
	    call_at(r, r->pid, insn, SYS_mprotect,
		    (uint64_t[6]){address, PLANT_CODE, PROT_READ | PROT_EXEC}, &result, err))
		return -1;
	if (result)
		return gck_fail(err, EACCES, "process %d may not make memory executable: %s",
				r->pid, strerror((int)-result));
	r->plant = address;
	r->scratch = address + PLANT_CODE + PLANT_CALLS;
	return 0;
}

unsigned gck_batch_add_(struct gck_batch *b, long nr, const uint64_t args[6])
{
	struct gck_link_call *c = &b->calls[b->n];

	c->nr = nr;
	memcpy(c->args, args, sizeof c->args);
	c->result = -ENOSYS;
	return b->n++;
}

int gck_remote_run(struct gck_remote *r, pid_t tid, struct gck_batch *b, struct gck_error *err)
{
	uint64_t list = r->plant + PLANT_CODE, size = b->n * sizeof b->calls[0];
	struct user_regs_struct regs = r->base;

	regs.rip = r->plant;
	regs.rbx = list;
	regs.r12 = list + size;
	if (!b->n)
		return 0;
	if (gck_remote_write(r, list, b->calls, size, err) || set_regs(tid, &regs, err) ||
	    resume_until(PTRACE_CONT, SIGTRAP, tid, err))
		return -1;
	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return gck_fail(err, errno, "reading registers of %d: %s", tid, strerror(errno));
	if (regs.rbx != list + size)
		return gck_fail(err, EFAULT,
				"thread %d trapped at %#llx instead of making its calls", tid,
				regs.rip);
	return gck_remote_read(r, list, b->calls, size, err);
}

int64_t gck_remote_call_(struct gck_remote *r, pid_t tid, struct gck_error *err, long nr,
			 const uint64_t args[6])
{
	struct gck_batch b;

	b.n = 0;
	gck_batch_add_(&b, nr, args);
	return gck_remote_run(r, tid, &b, err) ? -ESRCH : b.calls[0].result;
}

int gck_remote_exit(struct gck_remote *r, pid_t tid, struct gck_error *err)
{
	struct gck_batch b;
	struct gck_error gone;

	b.n = 0;
	gck_batch_add(&b, SYS_exit, 0);
	if (gck_remote_run(r, tid, &b, &gone) && gone.code == ESRCH)
		return 0;
	return gck_fail(err, EIO, "thread %d did not exit", tid);
}

/* Let the process go on with this call, which it does not return from. */
static int leave_by(struct gck_remote *r, long nr, uint64_t first, uint64_t second,
		    struct gck_error *err)
{
	struct user_regs_struct regs = r->base;

	regs.rip = find_syscall(r);
	regs.rax = (uint64_t)nr;
	regs.rdi = first;
	regs.rsi = second;
	if (set_regs(r->pid, &regs, err))
		return -1;
	return ptrace(PTRACE_CONT, r->pid, 0, 0)
		       ? gck_fail(err, errno, "resuming process %d: %s", r->pid, strerror(errno))
		       : 0;
}

/* It stops once more with its signal, unless that is SIGKILL. */
static int end_by(struct gck_remote *r, int signal, int *ended, struct gck_error *err)
{
	uint64_t blocked = 0;

	if (gck_remote_last(r, r->pid, err, SYS_prctl, PR_SET_DUMPABLE, 0) == -ESRCH)
		return -1;
	if (ptrace(PTRACE_SETSIGMASK, r->pid, sizeof blocked, &blocked))
		return gck_fail(err, errno, "unblocking signals of process %d: %s", r->pid,
				strerror(errno));
	if (leave_by(r, SYS_kill, (uint64_t)r->pid, (uint64_t)signal, err) ||
	    wait_status(r->pid, ended, err))
		return -1;
	if (!WIFSTOPPED(*ended))
		return 0;
	if (ptrace(PTRACE_CONT, r->pid, 0, signal))
		return gck_fail(err, errno, "resuming process %d: %s", r->pid, strerror(errno));
	return wait_status(r->pid, ended, err);
}

static int end_with(struct gck_remote *r, int exit_status, int *ended, struct gck_error *err)
{
	return leave_by(r, SYS_exit_group, (uint64_t)exit_status, 0, err) ||
			       wait_status(r->pid, ended, err)
		       ? -1
		       : 0;
}

int gck_remote_end(struct gck_remote *r, int status, struct gck_error *err)
{
	int ended, failed;

	failed = WTERMSIG(status) ? end_by(r, WTERMSIG(status), &ended, err)
				  : end_with(r, WEXITSTATUS(status), &ended, err);
	if (failed)
		return -1;
	return ended == status ? 0 : lost(r->pid, ended, err);
}

/* A batch has unblocked SIGTRAP. */
int64_t gck_remote_last_(struct gck_remote *r, pid_t tid, struct gck_error *err, long nr,
			 const uint64_t args[6])
{
	uint64_t insn = find_syscall(r);
	int64_t result;

	if (block_signals(tid, err) || call_at(r, tid, insn, nr, args, &result, err))
		return -ESRCH;
	return result;
}

/* Neither arguments nor environment: nothing of the program will run. */
int gck_remote_execute(struct gck_remote *r, const char *path, struct gck_error *err)
{
	uint64_t argv = r->scratch, envp = argv + sizeof(uint64_t), name = envp + sizeof(uint64_t);
	const uint64_t lists[2] = {0};
	struct gck_remote now = {.pid = r->pid};
	int64_t result;

	if (gck_remote_write(r, argv, lists, sizeof lists, err) ||
	    gck_remote_write(r, name, path, strlen(path) + 1, err) ||
	    call_at(r, r->pid, find_syscall(r), SYS_execve, (uint64_t[6]){name, argv, envp},
		    &result, err))
		return -1;
	if (result)
		return gck_fail(err, (int)-result, "%s", strerror((int)-result));
	if (ptrace(PTRACE_GETREGS, r->pid, 0, &now.base))
		return gck_fail(err, errno, "reading registers of %d: %s", r->pid, strerror(errno));
	now.base.orig_rax = ~0ull;
	*r = now;
	return 0;
}

int gck_remote_check(int64_t result, struct gck_error *err, const char *what, ...)
{
	char text[256];
	va_list ap;

	if (result >= 0)
		return 0;
	va_start(ap, what);
	vsnprintf(text, sizeof text, what, ap);
	va_end(ap);
	if (result == -ESRCH)
		return gck_fail_in(err, "%s", text);
	return gck_fail(err, (int)-result, "%s: %s", text, strerror((int)-result));
}
