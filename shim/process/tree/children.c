/* SPDX-License-Identifier: Apache-2.0
 * Children that have ended and were not waited for: how they ended, and making them again. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shim/process/proc/pages.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/tree/tree.h"

#define ASK 64u /* children at a time */

/* ---- scan ---------------------------------------------------------------------------------- */

/* Waited for without being taken, a child reports its end as often as it is asked. */
static void add_wait(struct gck_link_msg *m, pid_t pid, uint64_t into)
{
	m->calls[m->ncalls++] = (struct gck_link_call){
		.nr = SYS_waitid,
		.args = {P_PID, (uint64_t)pid, into, WEXITED | WNOHANG | WNOWAIT | __WALL}};
}

static int keep_end(struct gck_scan *s, struct gck_child *x, int64_t result, const siginfo_t *end)
{
	if (result || end->si_pid != x->rpid)
		return gck_fail(s->err, EAGAIN, "its child process %d cannot be waited for; try "
				"again", (int)x->vpid);
	x->status = end->si_code == CLD_EXITED ? W_EXITCODE(end->si_status, 0) : end->si_status;
	return 0;
}

static int ask_ends(struct gck_scan *s, struct gck_child *v, size_t n, int timeout_ms)
{
	struct gck_link_msg m = {0};
	siginfo_t ends[ASK];

	for (size_t i = 0; i < n; i++)
		add_wait(&m, v[i].rpid, s->t->shim->scratch + i * sizeof(ends[0]));
	if (gck_helper_calls(s->t, &m, timeout_ms, s->err) ||
	    gck_memory_read(s->t->pid, s->t->shim->scratch, ends, n * sizeof(ends[0]), s->err))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (keep_end(s, &v[i], m.calls[i].result, &ends[i]))
			return -1;
	return 0;
}

int gck_scan_ends(struct gck_scan *s, int timeout_ms)
{
	size_t n = s->img->nchildren;

	for (size_t i = 0; i < n; i += ASK)
		if (ask_ends(s, s->img->children + i, n - i < ASK ? n - i : ASK, timeout_ms))
			return -1;
	return 0;
}

/* The call names the child by the kernel's number, and would return at once anyway. */
int gck_scan_waits(struct gck_scan *s)
{
	bool waits = false;

	for (size_t i = 0; i < s->img->nthreads; i++) {
		uint64_t nr = s->img->threads[i].regs.orig_rax;

		waits |= nr == SYS_wait4 || nr == SYS_waitid;
	}
	if (waits && s->img->nchildren)
		gck_obstacle_add_passing(s->f, "process", "try again",
					 "it waits for a child process that has just ended: %d",
					 (int)s->img->children[0].vpid);
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Take those that an earlier build has made, or that a script left before it executed the
 * program. */
static int clear(struct gck_restore *r, struct gck_error *err)
{
	int64_t result;

	do
		result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_wait4, (uint64_t)-1, 0,
					 WNOHANG | __WALL, 0);
	while (result > 0);
	return result == -ESRCH ? -1 : 0;
}

static int set_action(struct gck_remote *r, int signal, void (*handler)(int), struct gck_error *err)
{
	struct gck_sigaction action = {.handler = (uint64_t)(uintptr_t)handler};

	if (gck_remote_write(r, r->scratch, &action, sizeof action, err))
		return -1;
	return gck_remote_check(gck_remote_call(r, r->pid, err, SYS_rt_sigaction,
						(uint64_t)signal, r->scratch, 0, 8),
				err, "the action of signal %d cannot be set", signal);
}

static pid_t pid_of(const struct gck_image *img, int32_t vpid)
{
	for (size_t i = 0; i < img->nchildren; i++)
		if (img->children[i].vpid == vpid)
			return img->children[i].rpid;
	return 0;
}

static int set_group(const struct gck_restore *r, struct gck_remote *child,
		     const struct gck_child *x, struct gck_error *err)
{
	int64_t result = 0;

	if (x->session)
		result = gck_remote_call(child, child->pid, err, SYS_setsid, 0);
	else if (x->group)
		result = gck_remote_call(child, child->pid, err, SYS_setpgid, 0,
					 (uint64_t)pid_of(r->img, x->group));
	return gck_remote_check(result, err, "its process group cannot be made");
}

/* A traced child: a fork that is stopped at its birth. */
static int fork_child(struct gck_restore *r, int exit_signal, struct gck_remote *child,
		      struct gck_error *err)
{
	int64_t pid = gck_remote_call(&r->remote, r->remote.pid, err, SYS_clone,
				      (uint64_t)exit_signal | CLONE_PTRACE, 0, 0, 0, 0);

	if (gck_remote_check(pid, err, "it cannot be made: raise the limit of processes"))
		return -1;
	*child = r->remote;
	child->pid = (pid_t)pid;
	return gck_remote_born(child->pid, err);
}

static int make(struct gck_restore *r, struct gck_child *x, struct gck_error *err)
{
	int signal = WTERMSIG(x->status);
	struct gck_remote child;

	if (x->exit_signal && set_action(&r->remote, x->exit_signal, SIG_DFL, err))
		return -1;
	if (fork_child(r, x->exit_signal, &child, err))
		return -1;
	x->rpid = child.pid;
	if (set_group(r, &child, x, err) ||
	    (signal && signal != SIGKILL && set_action(&child, signal, SIG_DFL, err)) ||
	    gck_remote_end(&child, x->status, err))
		return -1;
	/* the signal of its end is dropped: if it is pending, it is in the image */
	return x->exit_signal ? set_action(&r->remote, x->exit_signal, SIG_IGN, err) : 0;
}

int gck_restore_children(struct gck_restore *r, struct gck_error *err)
{
	if (clear(r, err))
		return -1;
	for (size_t i = 0; i < r->img->nchildren; i++)
		if (make(r, &r->img->children[i], err))
			return gck_fail_in(err, "child process %d, which had ended",
					   r->img->children[i].vpid);
	return 0;
}
