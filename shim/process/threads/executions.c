/* SPDX-License-Identifier: Apache-2.0
 * Threads that are about to execute a program. A thread notes it on its stack, and jumps out of the
 * call with the note still there: whether it holds is seen by where the thread's stack ends. */
#include "config.h"

#include <errno.h>
#include <sys/ptrace.h>

#include "shim/process/threads/threads.h"

/* Its handler may have interrupted the call, whose note is on another stack then. */
static bool on_altstack(const struct gck_target *t, const struct user_regs_struct *r)
{
	bool on = false;

	for (uint32_t i = 0; i < t->shim->naltstacks && !on; i++) {
		const struct gck_shim_altstack *a = &t->shim->altstacks[i];

		on = a->fs_base == r->fs_base && r->rsp - a->sp <= a->size;
	}
	return on;
}

static bool is_marked(const struct gck_target *t, uint64_t at)
{
	uint64_t mark;

	return !gck_memory_read(t->pid, at, &mark, sizeof mark, NULL) &&
	       mark == (GCK_SHIM_EXECUTION ^ at);
}

static bool executes(const struct gck_target *t, pid_t tid)
{
	struct user_regs_struct r;
	struct gck_shim_execution x;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r) || !r.fs_base ||
	    gck_memory_read(t->pid, r.fs_base + (uint64_t)t->shim->execution_offset, &x, sizeof x,
			    NULL))
		return false;
	return x.mark && x.pid == t->pid && (r.rsp <= x.mark || on_altstack(t, &r)) &&
	       is_marked(t, x.mark);
}

int gck_threads_check_executions(const struct gck_held *h, const struct gck_target *t,
				 struct gck_error *err)
{
	for (size_t i = 0; i < h->n && t->shim->execution_offset; i++)
		if (executes(t, h->v[i].tid))
			return gck_fail(err, EAGAIN, "process %d is about to execute a program; "
					"try again", (int)t->pid);
	return 0;
}
