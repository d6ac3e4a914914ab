/* SPDX-License-Identifier: Apache-2.0
 * Timers: POSIX timers, interval timers and timerfds. Scan of POSIX timers, and restore. Timers are
 * made while the process is held, and started when it is released. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"

#ifndef PR_TIMER_CREATE_RESTORE_IDS
#define PR_TIMER_CREATE_RESTORE_IDS 77
#endif
#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)
#endif
#define MAX_TIMER_TRIES 65536
#define TIMERS_AT_ONCE GCK_LINK_MAX_CALLS /* their times fit the scratch page */

/* ---- scan ---------------------------------------------------------------------------------- */

/* Parse one block of /proc/PID/timers. */
static void read_timer(struct gck_scan *s, const char *text, struct gck_posix_timer *x)
{
	const char *signal = gck_proc_field(text, "signal:");
	const char *notify = gck_proc_field(text, "notify:");
	const char *tid = notify ? strstr(notify, "tid.") : NULL;
	int64_t clock = (int64_t)gck_proc_number(text, "ClockID:", 10, 0);
	char object[32];

	x->id = (int32_t)strtol(text, NULL, 10);
	snprintf(object, sizeof(object), "timer %d", x->id);
	if (signal)
		sscanf(signal, "%d/%lx", &x->signo, &x->sigval);
	x->notify = notify && !strncmp(notify, "signal", 6) ? SIGEV_SIGNAL : SIGEV_NONE;
	if (notify && !strncmp(notify, "thread", 6))
		x->notify = SIGEV_THREAD;
	if (tid && tid < notify + strcspn(notify, "\n")) {
		x->notify |= SIGEV_THREAD_ID;
		x->vtid = gck_target_vtid(s->t, (int32_t)strtol(tid + 4, NULL, 10));
	}
	x->clock = (int32_t)clock;
	if (clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
		gck_obstacle_add(s->f, true, object, "use CLOCK_MONOTONIC", "it runs on CPU time");
}

int gck_scan_timer_list(struct gck_scan *s)
{
	char *text = gck_proc_read(s->t->proc, "timers", NULL, NULL);

	if (!text) {
		gck_obstacle_add(s->f, false, "timers",
				 "use a kernel with CONFIG_CHECKPOINT_RESTORE",
				 "this kernel does not list POSIX timers, so they cannot be saved");
		return 0;
	}
	for (char *at = text, *next; at && !strncmp(at, "ID: ", 4); at = next) {
		struct gck_posix_timer timer = {0}, *x;

		next = strstr(at, "\nID: ");
		if (next)
			*next++ = '\0';
		read_timer(s, at + 4, &timer);
		if (gck_target_is_lease(s->t, timer.signo, timer.sigval))
			continue;
		x = gck_grow(&s->img->timers, &s->img->ntimers, sizeof(*x), s->err);
		if (!x) {
			free(text);
			return -1;
		}
		*x = timer;
	}
	free(text);
	return 0;
}

static int64_t timespec_ns(struct timespec x)
{
	return x.tv_sec * 1000000000ll + x.tv_nsec;
}

int gck_scan_timers(struct gck_scan *s, int timeout_ms)
{
	struct itimerspec times[TIMERS_AT_ONCE];

	for (size_t from = 0; from < s->img->ntimers; from += TIMERS_AT_ONCE) {
		struct gck_posix_timer *v = s->img->timers + from;
		size_t left = s->img->ntimers - from;
		size_t n = left < TIMERS_AT_ONCE ? left : TIMERS_AT_ONCE;
		struct gck_link_msg m = {0};

		for (size_t i = 0; i < n; i++)
			gck_helper_call(&m, SYS_timer_gettime, (uint64_t)v[i].id,
			    s->t->shim->scratch + i * sizeof(times[0]), 0, 0);
		if (gck_inside_run(s, &m, timeout_ms) ||
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

/* ---- restore ------------------------------------------------------------------------------- */

/* The kernel's struct sigevent, as timer_create takes it. */
struct event {
	uint64_t value;
	int32_t signo, notify, tid;
	char pad[44];
};
static_assert(sizeof(struct event) == 64, "the kernel's struct sigevent");

static int32_t new_tid(const struct gck_restore *r, int32_t vtid)
{
	for (size_t i = 0; i < r->img->nthreads; i++)
		if (r->img->threads[i].vtid == vtid)
			return r->img->threads[i].rtid;
	return 0;
}

/* Make the timer. Returns the kernel's id, or -1. The wanted id is in scratch, where kernels that
 * support it read it. */
static int64_t create(struct gck_restore *r, const struct gck_posix_timer *t, struct gck_error *err)
{
	struct event e = {.value = t->sigval, .signo = t->signo, .notify = t->notify};
	uint64_t at = r->remote.scratch;
	int32_t id = t->id;
	int64_t made;

	if (t->notify & SIGEV_THREAD_ID)
		e.tid = new_tid(r, t->vtid);
	if (gck_remote_write(&r->remote, at, &e, sizeof e, err) ||
	    gck_remote_write(&r->remote, at + sizeof e, &id, sizeof id, err))
		return -1;
	made = gck_remote_call(&r->remote, r->remote.pid, err, SYS_timer_create, (uint64_t)t->clock,
			       at, at + sizeof e);
	if (gck_remote_check(made, err, "timer %d cannot be made again", t->id))
		return -1;
	return gck_remote_read(&r->remote, at + sizeof e, &id, sizeof id, err) ? -1 : id;
}

/* Kernels before 6.16 count ids up: make and delete timers until the wanted id comes. */
static int create_as(struct gck_restore *r, const struct gck_posix_timer *t, struct gck_error *err)
{
	for (unsigned i = 0; i < MAX_TIMER_TRIES; i++) {
		int64_t id = create(r, t, err);

		if (id < 0)
			return -1;
		if (id == t->id)
			return 0;
		if (gck_remote_call(&r->remote, r->remote.pid, err, SYS_timer_delete, (uint64_t)id))
			break;
	}
	return gck_fail(err, ENOTSUP,
			"timer %d cannot get its number again: this kernel assigns them in order; "
			"Linux 6.16 or newer is needed",
			t->id);
}

static int by_id(const void *a, const void *b)
{
	const struct gck_posix_timer *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

int gck_restore_timers(struct gck_restore *r, struct gck_error *err)
{
	int failed = 0;

	if (!r->img->ntimers)
		return 0;
	qsort(r->img->timers, r->img->ntimers, sizeof r->img->timers[0], by_id);
	gck_remote_call(&r->remote, r->remote.pid, err, SYS_prctl, PR_TIMER_CREATE_RESTORE_IDS, 1);
	for (size_t i = 0; i < r->img->ntimers && !failed; i++) {
		failed = create_as(r, &r->img->timers[i], err);
		r->ntimers += !failed;
	}
	gck_remote_call(&r->remote, r->remote.pid, err, SYS_prctl, PR_TIMER_CREATE_RESTORE_IDS, 0);
	return failed;
}

/* Delete the timers of a previous build. */
int gck_restore_no_timers(struct gck_restore *r, struct gck_error *err)
{
	for (; r->ntimers; r->ntimers--)
		if (gck_remote_call(&r->remote, r->remote.pid, err, SYS_timer_delete,
				    (uint64_t)r->img->timers[r->ntimers - 1].id))
			return gck_fail(err, EIO, "process %d: a timer cannot be deleted",
					r->remote.pid);
	return 0;
}

/* ---- when the rank is released ------------------------------------------------------------- */

static struct timespec spec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static int run_one(struct gck_restore *r, const void *arg, size_t size, long nr, uint64_t a,
		   uint64_t b, uint64_t c, uint64_t d, const char *what, struct gck_error *err)
{
	if (gck_remote_write(&r->remote, r->remote.scratch, arg, size, err))
		return -1;
	return gck_remote_check(gck_remote_last(&r->remote, r->remote.pid, err, nr, a, b, c, d),
				err, "%s", what);
}

static int arm_itimers(struct gck_restore *r, struct gck_error *err)
{
	for (uint64_t i = 0; i < 3; i++) {
		const struct gck_itimer *t = &r->img->itimers[i];
		struct itimerval v = {
			{(time_t)(t->interval_ns / 1000000000u),
			 t->interval_ns % 1000000000u / 1000},
			{(time_t)(t->value_ns / 1000000000u), t->value_ns % 1000000000u / 1000},
		};

		if (!t->value_ns)
			continue;
		if (!v.it_value.tv_sec && !v.it_value.tv_usec)
			v.it_value.tv_usec = 1;
		if (run_one(r, &v, sizeof v, SYS_setitimer, i, r->remote.scratch, 0, 0,
			    "an interval timer cannot be set", err))
			return -1;
	}
	return 0;
}

static int arm_timers(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->ntimers; i++) {
		const struct gck_posix_timer *t = &r->img->timers[i];
		struct itimerspec v = {spec(t->interval_ns), spec(t->value_ns)};

		if (t->value_ns && run_one(r, &v, sizeof v, SYS_timer_settime, (uint64_t)t->id, 0,
					   r->remote.scratch, 0, "a timer cannot be set", err))
			return -1;
	}
	return 0;
}

/* A repeating timer that has expired has no time left until it is read: its next period begins. */
static int arm_timerfd(struct gck_restore *r, const struct gck_file *f, int32_t fd,
		       struct gck_error *err)
{
	uint64_t left = f->value_ns || !f->ticks ? f->value_ns : f->interval_ns;
	struct itimerspec v = {spec(f->interval_ns), spec(left)};

	if (left && run_one(r, &v, sizeof v, SYS_timerfd_settime, (uint64_t)fd, 0,
			    r->remote.scratch, 0, "a timerfd cannot be set", err))
		return -1;
	if (f->ticks &&
	    run_one(r, &f->ticks, sizeof f->ticks, SYS_ioctl, (uint64_t)fd, TFD_IOC_SET_TICKS,
		    r->remote.scratch, 0, "a timerfd's count cannot be set", err))
		return -1;
	return 0;
}

int gck_restore_arm(struct gck_restore *r, struct gck_error *err)
{
	if (arm_itimers(r, err) || arm_timers(r, err))
		return -1;
	for (size_t i = 0; i < r->img->nfds; i++) {
		const struct gck_fd *d = &r->img->fds[i];
		const struct gck_file *f = &r->img->files[d->file];

		if (f->kind == GCK_FD_TIMERFD && arm_timerfd(r, f, d->fd, err))
			return -1;
	}
	return 0;
}
