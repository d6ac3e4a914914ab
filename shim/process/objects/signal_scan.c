/* SPDX-License-Identifier: Apache-2.0
 * What only the rank itself can tell: system calls run by the shim's helper, in as few messages as
 * possible, since the rank is held meanwhile. Results lie in the shim's scratch page. */
#include "config.h"

#include <linux/prctl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "shim/process/rank/scan.h"

#define NSIGNALS 64

/* The scratch while the first message runs. */
struct scratch {
	struct gck_sigaction actions[NSIGNALS + 1];
	struct itimerval itimers[3];
	struct timespec clocks[2];
};

/* The scratch while timers are asked for. */
#define TIMERS_AT_ONCE GCK_LINK_MAX_CALLS

static int64_t *add(struct gck_link_msg *m, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct gck_link_call *call = &m->calls[m->ncalls++];

	*call = (struct gck_link_call){.nr = nr, .args = {a, b, c, d}};
	return &call->result;
}

static int run(struct gck_scan *s, struct gck_link_msg *m, int timeout_ms)
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
		/* expired, and set going again when its signal is taken: which is pending */
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
	const int64_t *brk, *dumpable, *thp, *nnp;
	struct scratch x;

	for (int i = 1; i <= NSIGNALS; i++)
		if (i != SIGKILL && i != SIGSTOP)
			add(&m, SYS_rt_sigaction, (uint64_t)i, 0,
			    base + offsetof(struct scratch, actions[i]), 8);
	for (int i = 0; i < 3; i++)
		add(&m, SYS_getitimer, (uint64_t)i, base + offsetof(struct scratch, itimers[i]), 0,
		    0);
	add(&m, SYS_clock_gettime, CLOCK_REALTIME, base + offsetof(struct scratch, clocks[0]), 0,
	    0);
	add(&m, SYS_clock_gettime, CLOCK_MONOTONIC, base + offsetof(struct scratch, clocks[1]), 0,
	    0);
	brk = add(&m, SYS_brk, 0, 0, 0, 0);
	dumpable = add(&m, SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0);
	thp = add(&m, SYS_prctl, PR_GET_THP_DISABLE, 0, 0, 0);
	nnp = add(&m, SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0);
	if (run(s, &m, timeout_ms) || gck_memory_read(s->t->pid, base, &x, sizeof(x), s->err))
		return -1;
	s->img->brk = (uint64_t)*brk;
	s->img->dumpable = (int32_t)*dumpable;
	s->img->thp_disable = (int32_t)*thp;
	s->img->nnp = (int32_t)*nnp;
	keep(s->img, &x);
	return 0;
}

static int ask_timers(struct gck_scan *s, int timeout_ms)
{
	struct itimerspec times[TIMERS_AT_ONCE];

	for (size_t from = 0; from < s->img->ntimers; from += TIMERS_AT_ONCE) {
		struct gck_posix_timer *v = s->img->timers + from;
		size_t left = s->img->ntimers - from;
		size_t n = left < TIMERS_AT_ONCE ? left : TIMERS_AT_ONCE;
		struct gck_link_msg m = {0};

		for (size_t i = 0; i < n; i++)
			add(&m, SYS_timer_gettime, (uint64_t)v[i].id,
			    s->t->shim->scratch + i * sizeof(times[0]), 0, 0);
		if (run(s, &m, timeout_ms) ||
		    gck_memory_read(s->t->pid, s->t->shim->scratch, times, n * sizeof(times[0]),
				    s->err))
			return -1;
		for (size_t i = 0; i < n; i++) {
			v[i].value_ns = (uint64_t)timespec_ns(times[i].it_value);
			v[i].interval_ns = (uint64_t)timespec_ns(times[i].it_interval);
		}
	}
	return 0;
}

int gck_scan_inside(struct gck_scan *s, int timeout_ms)
{
	return ask_state(s, timeout_ms) || ask_timers(s, timeout_ms) ? -1 : 0;
}
