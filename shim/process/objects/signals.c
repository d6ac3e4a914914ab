/* SPDX-License-Identifier: Apache-2.0
 * Signals: actions and pending signals. Scan and restore. The scan asks for everything that only
 * the rank itself can report, in as few messages to the helper as possible, since the rank is held
 * meanwhile. Results lie in the shim's scratch page. */
#include "config.h"

#include <errno.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/ptrace/socket_maker.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/tree/tree.h"
#include "shim/sender.h"

#define NSIGNALS GCK_SHIM_SIGNALS
#define GLIBC_FIRST 32
#define GLIBC_LAST 33

/* ---- scan ---------------------------------------------------------------------------------- */

/* The scratch page during the first message. */
struct scratch {
	struct gck_sigaction actions[NSIGNALS + 1];
	struct itimerval itimers[3];
	struct timespec clocks[2];
};

int gck_inside_run(struct gck_scan *s, struct gck_link_msg *m, int timeout_ms)
{
	if (gck_helper_calls(s->t, m, timeout_ms, s->err))
		return -1;
	for (uint32_t i = 0; i < m->ncalls; i++)
		if (m->calls[i].result < 0 && m->calls[i].result >= -4095)
			return gck_fail(s->err, (int)-m->calls[i].result, "system call %lld in "
					"process %d failed: %s", (long long)m->calls[i].nr,
					(int)s->t->pid, strerror((int)-m->calls[i].result));
	return 0;
}

static int64_t timeval_ns(struct timeval x)
{
	return x.tv_sec * 1000000000ll + x.tv_usec * 1000ll;
}

static int64_t timespec_ns(struct timespec x)
{
	return x.tv_sec * 1000000000ll + x.tv_nsec;
}

static void keep(struct gck_image *img, const struct scratch *x)
{
	for (int i = 1; i <= NSIGNALS; i++)
		if (i != SIGKILL && i != SIGSTOP)
			img->actions[i] = x->actions[i];
	for (int i = 0; i < 3; i++) {
		img->itimers[i].value_ns = (uint64_t)timeval_ns(x->itimers[i].it_value);
		img->itimers[i].interval_ns = (uint64_t)timeval_ns(x->itimers[i].it_interval);
		/* it has expired, and starts again when its signal, which is pending, is taken */
		if (!img->itimers[i].value_ns)
			img->itimers[i].value_ns = img->itimers[i].interval_ns;
	}
	img->realtime_ns = timespec_ns(x->clocks[0]);
	img->monotonic_ns = timespec_ns(x->clocks[1]);
}

static int ask_state(struct gck_scan *s, int timeout_ms)
{
	uint64_t base = s->t->shim->scratch;
	struct gck_link_msg m = {0};
	const int64_t *brk, *dumpable, *thp;
	struct scratch x;

	for (int i = 1; i <= NSIGNALS; i++)
		if (i != SIGKILL && i != SIGSTOP)
			gck_helper_call(&m, SYS_rt_sigaction, (uint64_t)i, 0,
			    base + offsetof(struct scratch, actions[i]), 8);
	for (int i = 0; i < 3; i++)
		gck_helper_call(&m, SYS_getitimer, (uint64_t)i,
				base + offsetof(struct scratch, itimers[i]), 0, 0);
	gck_helper_call(&m, SYS_clock_gettime, CLOCK_REALTIME,
			base + offsetof(struct scratch, clocks[0]), 0, 0);
	gck_helper_call(&m, SYS_clock_gettime, CLOCK_MONOTONIC,
			base + offsetof(struct scratch, clocks[1]), 0, 0);
	brk = gck_helper_call(&m, SYS_brk, 0, 0, 0, 0);
	dumpable = gck_helper_call(&m, SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0);
	thp = gck_helper_call(&m, SYS_prctl, PR_GET_THP_DISABLE, 0, 0, 0);
	if (gck_inside_run(s, &m, timeout_ms) ||
	    gck_memory_read(s->t->pid, base, &x, sizeof(x), s->err))
		return -1;
	s->img->brk = (uint64_t)*brk;
	s->img->dumpable = (int32_t)*dumpable;
	s->img->thp_disable = (int32_t)*thp;
	keep(s->img, &x);
	return 0;
}

int gck_scan_inside(struct gck_scan *s, int timeout_ms)
{
	return ask_state(s, timeout_ms) || gck_scan_attributes(s, timeout_ms) ||
	       gck_scan_lock_future(s, timeout_ms) || gck_scan_timers(s, timeout_ms) ||
	       gck_scan_ends(s, timeout_ms) ? -1 : 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* glibc's own two are told the kernel's numbers. */
void gck_restore_handlers(struct gck_image *img, struct gck_shim_state *state)
{
	for (int i = 1; i <= NSIGNALS && state->handler_entry; i++) {
		struct gck_sigaction *a = &img->actions[i];

		if (!(a->flags & SA_SIGINFO) || a->handler == (uint64_t)SIG_DFL ||
		    a->handler == (uint64_t)SIG_IGN || a->handler == state->handler_entry ||
		    (i >= GLIBC_FIRST && i <= GLIBC_LAST))
			continue;
		state->handlers[i] = a->handler;
		a->handler = state->handler_entry;
	}
}

int gck_restore_actions(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	if (gck_remote_write(&r->remote, r->remote.scratch, r->img->actions, sizeof r->img->actions,
			     err))
		return -1;
	for (uint64_t s = 1; s <= 64; s++)
		if (s != SIGKILL && s != SIGSTOP)
			gck_batch_add(&b, SYS_rt_sigaction, s,
				      r->remote.scratch + s * sizeof r->img->actions[0], 0, 8);
	if (gck_remote_run(&r->remote, r->remote.pid, &b, err))
		return -1;
	for (unsigned i = 0; i < b.n; i++)
		if (b.calls[i].result)
			return gck_fail(err, (int)-b.calls[i].result, "action of signal %llu: %s",
					(unsigned long long)b.calls[i].args[0],
					strerror((int)-b.calls[i].result));
	return 0;
}

/* By the kernel's number, if the sender was restored. */
static void set_sender(const struct gck_restore *r, siginfo_t *info)
{
	const struct gck_restore *sender =
		gck_has_sender(info) ? gck_restore_find(r->root, info->si_pid) : NULL;

	if (sender)
		info->si_pid = sender->remote.pid;
}

/* SIGTRAP may be among the pending signals, so from here on no call may raise it. */
static int queue_one(struct gck_restore *r, const struct gck_pending *p, pid_t tid, bool process,
		     struct gck_error *err)
{
	int32_t signo;
	int64_t result;
	siginfo_t info;

	memcpy(&info, p->info, sizeof info);
	signo = info.si_signo;
	set_sender(r, &info);
	if (gck_remote_write(&r->remote, r->remote.scratch, &info, sizeof info, err))
		return -1;
	if (process)
		result = gck_remote_last(&r->remote, tid, err, SYS_rt_sigqueueinfo, (uint64_t)tid,
					 (uint64_t)signo, r->remote.scratch);
	else
		result = gck_remote_last(&r->remote, tid, err, SYS_rt_tgsigqueueinfo,
					 (uint64_t)r->remote.pid, (uint64_t)tid, (uint64_t)signo,
					 r->remote.scratch);
	return gck_remote_check(result, err, "signal %d cannot be made pending again", signo);
}

/* Batches have reset the action. It is set before the signals are queued, since setting an action
 * that ignores SIGTRAP drops a pending one. */
static int set_trap_action(struct gck_restore *r, struct gck_error *err)
{
	uint64_t at = r->remote.scratch;

	if (gck_remote_write(&r->remote, at, &r->img->actions[SIGTRAP],
			     sizeof r->img->actions[SIGTRAP], err))
		return -1;
	return gck_remote_check(gck_remote_last(&r->remote, r->remote.pid, err, SYS_rt_sigaction,
						SIGTRAP, at, 0, 8),
				err, "the action of SIGTRAP cannot be set");
}

/* Queue signals that were pending; all are blocked until the rank runs. */
int gck_restore_queue(struct gck_restore *r, struct gck_error *err)
{
	if (set_trap_action(r, err))
		return -1;
	for (size_t i = 0; i < r->img->npending; i++)
		if (queue_one(r, &r->img->pending[i], r->remote.pid, true, err))
			return -1;
	for (size_t i = 0; i < r->img->nthreads; i++)
		for (size_t k = 0; k < r->img->threads[i].npending; k++)
			if (queue_one(r, &r->img->threads[i].pending[k], r->img->threads[i].rtid,
				      false, err))
				return -1;
	return 0;
}
