/* SPDX-License-Identifier: Apache-2.0
 * Children that have ended and were not waited for: how they ended, and making them again. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shim/process/proc/pages.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/proc/trace.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/terminal/terminal.h"
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
	struct gck_child *v = s->img->children;
	size_t n;

	for (size_t i = 0; i < s->img->nchildren; i += n ? n : 1) {
		for (n = 0; i + n < s->img->nchildren && n < ASK && !v[i + n].runs;)
			n++;
		if (n && ask_ends(s, v + i, n, timeout_ms))
			return -1;
	}
	return 0;
}

/* The preload's functions wait by waitid, and know what a restart does to its result. Others get
 * the kernel's number. */
int gck_scan_waits(struct gck_scan *s)
{
	bool waits = false;

	for (size_t i = 0; i < s->img->nthreads && !s->img->keeps_numbers; i++)
		waits |= s->img->threads[i].regs.orig_rax == SYS_wait4;
	if (waits && s->img->nchildren)
		gck_obstacle_add_passing(s->f, "process", "try again",
					 "it waits for a child process by a system call of its "
					 "own: %d", (int)s->img->children[0].vpid);
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

/* A traced child: a fork that is stopped at its birth. number: the image's. */
static int fork_child(const struct gck_restore *r, struct gck_remote *parent, int exit_signal,
		      int32_t number, struct gck_remote *child, struct gck_error *err)
{
	struct gck_rebuild_clone c;
	int64_t pid;

	gck_rebuild_clone(r, &c, parent->scratch, number);
	c.args.flags = CLONE_PTRACE;
	c.args.exit_signal = (uint64_t)exit_signal;
	if (gck_remote_write(parent, parent->scratch, &c, sizeof c, err))
		return -1;
	pid = gck_remote_call(parent, parent->pid, err, SYS_clone3, parent->scratch,
			      sizeof c.args);
	if (gck_rebuild_cloned(r, pid, number, err))
		return -1;
	*child = *parent;
	child->pid = (pid_t)pid;
	return gck_remote_born(child->pid, err);
}

/* A child of a child that ends at once: which process is its parent then is the node's matter. */
static int fork_orphan(struct gck_restore *r, struct gck_child *x, struct gck_remote *child,
		       struct gck_error *err)
{
	struct gck_remote parent;
	int64_t result = 0;

	if (fork_child(r, &r->remote, 0, x->leader, &parent, err))
		return -1;
	if (x->leader)
		result = gck_remote_call(&parent, parent.pid, err, SYS_setsid, 0);
	x->leader_rpid = x->leader ? parent.pid : 0;
	if (gck_remote_check(result, err, "its session cannot be made") ||
	    fork_child(r, &parent, x->exit_signal, x->vpid, child, err) ||
	    gck_remote_end(&parent, 0, err))
		return -1;
	result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_wait4, (uint64_t)parent.pid,
				 0, __WALL, 0);
	return gck_remote_check(result, err, "its parent cannot be waited for");
}

static int make_all(struct gck_restore *r, struct gck_error *err);

static int end(struct gck_restore *r, struct gck_remote *child, const struct gck_child *x,
	       struct gck_error *err)
{
	int signal = WTERMSIG(x->status);

	if ((signal && signal != SIGKILL && set_action(child, signal, SIG_DFL, err)) ||
	    gck_remote_end(child, x->status, err))
		return -1;
	/* the signal of its end is dropped: if it is pending, it is in the image */
	return x->exit_signal ? set_action(&r->remote, x->exit_signal, SIG_IGN, err) : 0;
}

/* Like a new task: its standard descriptors, and no others. */
static int take_over(struct gck_restore *parent, struct gck_restore *c,
		     const struct gck_remote *child, struct gck_error *err)
{
	int high = parent->root->high;
	struct gck_batch b;

	c->remote = *child;
	c->seized = true;
	c->proc = gck_proc_open(child->pid, err);
	if (c->proc < 0)
		return -1;
	b.n = 0;
	for (int i = 0; i < 3; i++)
		gck_batch_add(&b, SYS_dup2, (uint64_t)(high + i), (uint64_t)i);
	gck_batch_add(&b, SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* fails without Yama */
	gck_trace_allow(child->pid, GCK_TRACER_ANY);
	if (gck_remote_run(&c->remote, c->remote.pid, &b, err))
		return -1;
	return make_all(c, err);
}

static int make(struct gck_restore *r, struct gck_child *x, size_t *process, struct gck_error *err)
{
	struct gck_remote child;

	if (x->exit_signal && set_action(&r->remote, x->exit_signal, SIG_DFL, err))
		return -1;
	if (x->orphan ? fork_orphan(r, x, &child, err)
		      : fork_child(r, &r->remote, x->exit_signal, x->vpid, &child, err))
		return -1;
	x->before = x->rpid;
	x->rpid = child.pid;
	if (set_group(r, &child, x, err) ||
	    (x->session && gck_terminal_take(r, &child, x->before, err)))
		return -1;
	return x->runs ? take_over(r, r->children[(*process)++], &child, err)
		       : end(r, &child, x, err);
}

static int make_all(struct gck_restore *r, struct gck_error *err)
{
	size_t process = 0;

	for (size_t i = 0; i < r->img->nchildren; i++)
		if (make(r, &r->img->children[i], &process, err))
			return gck_fail_in(err, "child process %d", r->img->children[i].vpid);
	return 0;
}

int gck_restore_children(struct gck_restore *r, struct gck_error *err)
{
	if (r->keeps_numbers && r->remote.pid != r->img->vpid)
		return gck_fail(err, ENOTSUP, "the image has a static program, so its processes "
				"need their old numbers: the rank is %d now, and was %d",
				(int)r->remote.pid, (int)r->img->vpid);
	return clear(r, err) || make_all(r, err) ? -1 : 0;
}
