/* SPDX-License-Identifier: Apache-2.0
 * A helper in a held process that has none. Its stopped main thread is given other registers, once
 * a place in its memory has all of its own: it makes the helper and goes back to them without us,
 * should we die. Otherwise we stop it when the helper is made, and set its registers ourselves:
 * only then does the kernel treat an interrupted system call as if nothing had happened. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/threads/threads.h"

#define CALL_STOPS 6 /* of the stub's three system calls */
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define ANSWER_MS 2000
#define ERESTARTNOHAND 514

static int put(const struct gck_target *t, uint64_t address, const void *data, size_t size,
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

static int write_frame(const struct gck_target *t, struct user_regs_struct r, uint64_t at,
		       struct gck_error *err)
{
	struct gck_shim_summon f;

	restart(&r);
	f = (struct gck_shim_summon){
		.all = ~0ull, .stack = t->shim->helper_stack_top, .r15 = r.r15, .r14 = r.r14,
		.r13 = r.r13, .r12 = r.r12, .rbp = r.rbp, .rbx = r.rbx, .r11 = r.r11,
		.r10 = r.r10, .r9 = r.r9, .r8 = r.r8, .rax = r.rax, .rcx = r.rcx, .rdx = r.rdx,
		.rsi = r.rsi, .rdi = r.rdi, .rip = r.rip, .cs = r.cs, .eflags = r.eflags,
		.rsp = r.rsp, .ss = r.ss};
	return put(t, at, &f, sizeof f, err);
}

#define PUT(t, field, value, err) \
	put(t, (t)->address + offsetof(struct gck_shim_state, field), value, \
	    sizeof((t)->shim->field), err)

static int write_state(const struct gck_target *t, const char *link, struct gck_error *err)
{
	char name[sizeof(t->shim->link)] = "";
	const uint32_t features = t->shim->features | GCK_SHIM_SUMMONED, linked = 0;
	const int32_t none = -1, helper = 0;

	snprintf(name, sizeof name, "%s", link);
	return PUT(t, link, name, err) || PUT(t, link_fd, &none, err) ||
	       PUT(t, helper_tid, &helper, err) || PUT(t, linked, &linked, err) ||
	       PUT(t, features, &features, err) ? -1 : 0;
}

/* Let the main thread run to its next stop, which must be this one. */
static int go_to(pid_t pid, int request, int stop, int *status)
{
	if (ptrace(request, pid, 0, 0))
		return -1;
	while (waitpid(pid, status, __WALL) != pid)
		if (errno != EINTR)
			return -1;
	return WIFSTOPPED(*status) && *status >> 8 == stop ? 0 : -1;
}

/* Run the stub, and stop the thread before it leaves the last call. */
static int run_stub(pid_t pid, int *status)
{
	for (int i = 0; i < CALL_STOPS; i++)
		if (go_to(pid, PTRACE_SYSCALL, SYSCALL_STOP, status))
			return -1;
	return ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
			       go_to(pid, PTRACE_CONT, SIGTRAP | PTRACE_EVENT_STOP << 8, status)
		       ? -1
		       : 0;
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

static int make_helper(const struct gck_target *t, struct gck_held_thread *x,
		       struct gck_error *err)
{
	uint64_t at = t->shim->helper_stack_top - GCK_SHIM_SUMMON_AT;
	struct user_regs_struct own, stub;
	int status = 0, failed;

	if (ptrace(PTRACE_SETOPTIONS, x->tid, 0, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_GETREGS, x->tid, 0, &own))
		return gck_fail(err, errno, "reading registers of process %d: %s", (int)t->pid,
				strerror(errno));
	if (write_frame(t, own, at, err))
		return -1;
	stub = own;
	stub.rip = t->shim->helper_entry;
	stub.rsp = at;
	stub.rax = 1;
	stub.orig_rax = ~0ull;
	failed = ptrace(PTRACE_SETREGS, x->tid, 0, &stub) || run_stub(x->tid, &status);
	if (failed)
		note_signal(x, status);
	if (ptrace(PTRACE_SETREGS, x->tid, 0, &own) || failed)
		return gck_fail(err, EAGAIN, "process %d cannot be asked for its state now; try "
				"again", (int)t->pid);
	return 0;
}

/* ---- its link ------------------------------------------------------------------------------ */

static bool is_peer(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid == pid;
}

static int accept_helper(const struct gck_target *t, int listener, struct gck_error *err)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	struct gck_link_msg m = {.type = GCK_LINK_GO, .pid = t->rank->shim->tracer};
	int fd = -1;

	while (fd < 0 && poll(&p, 1, ANSWER_MS) > 0) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0 && !is_peer(fd, t->pid)) {
			close(fd);
			fd = -1;
		}
	}
	if (fd >= 0 && send(fd, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL) > 0 &&
	    recv(fd, &m, sizeof m, 0) > 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return gck_fail(err, EAGAIN, "process %d did not answer; try again", (int)t->pid);
}

/* After fork() a child leaves its parent's link. Until then, or if it was not made by fork(), it
 * has its parent's state, too. */
static bool has_link(const struct gck_target *t)
{
	return t->shim->link_fd >= 0;
}

/* The helper of an earlier checkpoint has the stack until it is gone. */
static bool has_helper(const struct gck_target *t)
{
	char name[32];

	snprintf(name, sizeof name, "task/%d", (int)t->shim->helper_tid);
	return t->shim->helper_tid && faccessat(t->proc, name, F_OK, 0) == 0;
}

int gck_summon(struct gck_target *t, struct gck_held *h, const char *link, int listener,
	       struct gck_error *err)
{
	struct gck_held_thread *x = NULL;
	char agent[sizeof t->shim->link];
	int failed;

	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].tid == t->pid)
			x = &h->v[i];
	if (!(t->shim->features & GCK_SHIM_SUMMON))
		return gck_fail(err, ENOTSUP, "process %d has an older preload", (int)t->pid);
	if (!x || x->signal || has_link(t) || has_helper(t))
		return gck_fail(err, EAGAIN, "process %d has just been forked, is about to handle "
				"a signal, or is not done with an earlier checkpoint; try again",
				(int)t->pid);
	memcpy(agent, t->shim->link, sizeof agent);
	failed = write_state(t, link, err) || make_helper(t, x, err);
	if (!failed)
		t->link = accept_helper(t, listener, err);
	/* the stand-ins connect to the agent */
	failed = failed || t->link < 0 || put(t, t->address + offsetof(struct gck_shim_state, link),
					      agent, sizeof agent, err);
	return failed ? -1 : gck_target_refresh(t, err);
}
