/* SPDX-License-Identifier: Apache-2.0
 * Calls of the kernel's vdso in which a thread was stopped. Such a call reads data of this kernel,
 * which another kernel does not have: time() would return 1970. So these calls are finished before
 * the image is written.
 *
 * The clone runs the single steps, with the thread's registers. If the rank itself were stepped and
 * its tracer died, the program would get the trap. Memory that the clone shares with the rank must
 * not be written: a call that would write it, or takes too long, stays unfinished. */
#include "config.h"

#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/proc/trace.h"

#define MOST_STEPS 4096
#define REACH 128 /* a write is at most this far from an address in a register */

static const struct gck_map *vdso_of(const struct gck_image *img)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (img->maps[i].kind == GCK_MAP_VDSO)
			return &img->maps[i];
	return NULL;
}

static bool is_inside(const struct gck_map *vdso, const struct gck_thread *x)
{
	return x->regs.rip >= vdso->start && x->regs.rip < vdso->end;
}

/* ---- shared memory ------------------------------------------------------------------------- */

static int protect(struct gck_output *o, struct gck_link_msg *m)
{
	uint32_t n = m->ncalls;

	if (gck_clone_ask(o->c->clone, o->c->life, m, -1, o->err) ||
	    gck_clone_answer(o->c->clone, o->c->life, m, n, o->err))
		return -1;
	for (uint32_t i = 0; i < n; i++)
		if (m->calls[i].result)
			return gck_fail(o->err, (int)-m->calls[i].result,
					"shared memory at %llx cannot be closed to the clone: %s",
					(unsigned long long)m->calls[i].args[0],
					strerror((int)-m->calls[i].result));
	m->ncalls = 0;
	return 0;
}

static int protect_shared(struct gck_output *o, const struct gck_maps *maps)
{
	struct gck_link_msg m = {.ncalls = 0};

	for (size_t i = 0; i < maps->n; i++) {
		const struct gck_vma *x = &maps->v[i];

		if (!x->shared || !(x->prot & PROT_WRITE))
			continue;
		m.calls[m.ncalls++] = (struct gck_link_call){
			.nr = SYS_mprotect,
			.args = {x->start, x->end - x->start, (uint64_t)(x->prot & ~PROT_WRITE)},
		};
		if (m.ncalls == GCK_LINK_MAX_CALLS && protect(o, &m))
			return -1;
	}
	return m.ncalls ? protect(o, &m) : 0;
}

static int close_shared(struct gck_output *o)
{
	int proc = gck_proc_open(o->c->clone, o->err);
	struct gck_maps maps = {0};
	int result = proc < 0 || gck_maps_read(proc, &maps, o->err) ? -1 : protect_shared(o, &maps);

	gck_maps_free(&maps);
	if (proc >= 0)
		close(proc);
	return result;
}

/* ---- registers ----------------------------------------------------------------------------- */

static int failed(const struct gck_output *o, const char *what)
{
	return gck_fail(o->err, errno, "cannot %s the clone, process %d: %s", what,
			(int)o->c->clone, strerror(errno));
}

static int general(struct gck_output *o, enum __ptrace_request request,
		   struct user_regs_struct *regs)
{
	return ptrace(request, o->c->clone, 0, regs) ? failed(o, "move registers of") : 0;
}

static int extended(struct gck_output *o, enum __ptrace_request request, const struct gck_thread *x)
{
	struct iovec state = {x->xstate, x->xstate_size};

	return ptrace(request, o->c->clone, NT_X86_XSTATE, &state)
		       ? failed(o, "move vector registers of") : 0;
}

static int get_registers(struct gck_output *o, struct gck_thread *x)
{
	return general(o, PTRACE_GETREGS, &x->regs) || extended(o, PTRACE_GETREGSET, x) ? -1 : 0;
}

static int set_registers(struct gck_output *o, struct gck_thread *x)
{
	return general(o, PTRACE_SETREGS, &x->regs) || extended(o, PTRACE_SETREGSET, x) ? -1 : 0;
}

/* ---- stepping ------------------------------------------------------------------------------ */

static int wait_stop(struct gck_output *o, int *status)
{
	while (waitpid(o->c->clone, status, __WALL) < 0)
		if (errno != EINTR)
			return failed(o, "wait for");
	return WIFSTOPPED(*status) ? 0
				   : gck_fail(o->err, ECHILD,
					      "the clone, process %d, ended before it was read: "
					      "out of memory?",
					      (int)o->c->clone);
}

/* Exclude what the clone may write from the dirty tracker: the rank has not written it. */
static void note_writes(struct gck_output *o, const struct user_regs_struct *r)
{
	const uint64_t at[] = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->rsp,
			       r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
		gck_dirty_spoil(&o->c->dirty, at[i] - REACH);
		gck_dirty_spoil(&o->c->dirty, at[i] + REACH);
	}
}

/* Step until the thread leaves the vdso, or something other than the step stops it, such as a write
 * to memory that the clone may not write. Each step is done completely or not at all, so the thread
 * can go on from wherever this ends. */
static int step_out(struct gck_output *o, const struct gck_map *vdso, struct gck_thread *x)
{
	int status = SIGTRAP << 8;

	for (int i = 0; i < MOST_STEPS && is_inside(vdso, x) && status >> 8 == SIGTRAP; i++) {
		note_writes(o, &x->regs);
		if (ptrace(PTRACE_SINGLESTEP, o->c->clone, 0, 0))
			return failed(o, "step");
		if (wait_stop(o, &status) || general(o, PTRACE_GETREGS, &x->regs))
			return -1;
	}
	x->regs.orig_rax = ~0ull;
	return extended(o, PTRACE_GETREGSET, x);
}

static int finish_all(struct gck_output *o, const struct gck_map *vdso)
{
	struct gck_image *img = o->c->img;

	for (size_t i = 0; i < img->nthreads; i++) {
		struct gck_thread *x = &img->threads[i];

		if (is_inside(vdso, x) && (set_registers(o, x) || step_out(o, vdso, x)))
			return -1;
	}
	return 0;
}

/* The clone's own registers are restored afterwards: it goes on waiting for its next request. */
static int finish_traced(struct gck_output *o, const struct gck_map *vdso)
{
	const struct gck_thread *like = &o->c->img->threads[0];
	struct gck_thread own = {.xstate = malloc(like->xstate_size),
				 .xstate_size = like->xstate_size};
	int status, result = -1;

	if (!own.xstate)
		gck_fail(o->err, ENOMEM, "out of memory for registers");
	else if (ptrace(PTRACE_INTERRUPT, o->c->clone, 0, 0))
		failed(o, "stop");
	else if (!wait_stop(o, &status) && !get_registers(o, &own))
		result = finish_all(o, vdso) || set_registers(o, &own) ? -1 : 0;
	free(own.xstate);
	if (ptrace(PTRACE_DETACH, o->c->clone, 0, 0))
		waitpid(o->c->clone, &status, __WALL);
	return result;
}

int gck_output_finish_calls(struct gck_output *o)
{
	const struct gck_image *img = o->c->img;
	const struct gck_map *vdso = vdso_of(img);
	bool any = false;

	for (size_t i = 0; i < img->nthreads && vdso && !any; i++)
		any = is_inside(vdso, &img->threads[i]);
	if (!any)
		return 0;
	if (close_shared(o))
		return -1;
	if (gck_trace_seize(o->c->clone, PTRACE_O_EXITKILL))
		return failed(o, "trace");
	return finish_traced(o, vdso);
}
