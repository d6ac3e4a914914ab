/* SPDX-License-Identifier: Apache-2.0
 * Stopping a rank's threads, and releasing them. */
#include "config.h"

#include "shim/process/threads/threads.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/proc/trace.h"

#define POLL_NS 50000 /* interval of checks for threads that have not stopped yet, */
#define YIELDS 50     /* after so many without one: most stop at once */
#define ASK_AGAIN 200 /* checks: a thread inside execve may lose PTRACE_INTERRUPT */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

void gck_threads_pause(unsigned looks)
{
	const struct timespec pause = {.tv_nsec = POLL_NS};

	if (looks > YIELDS)
		nanosleep(&pause, NULL);
	else
		sched_yield();
}

/* A thread's state letter and name, for decisions and messages. */
static char describe(const struct gck_target *t, pid_t tid, char name[64])
{
	char file[48], state = '?';
	char *text;

	snprintf(file, sizeof(file), "task/%d/status", (int)tid);
	text = gck_proc_read(t->proc, file, NULL, NULL);
	snprintf(name, 64, "thread %d", (int)tid);
	if (text) {
		const char *comm = gck_proc_field(text, "Name:");
		const char *letter = gck_proc_field(text, "State:");

		if (comm)
			snprintf(name, 64, "thread %d (%.*s)", (int)tid,
				 (int)strcspn(comm, "\n"), comm);
		if (letter)
			state = *letter;
		free(text);
	}
	return state;
}

static bool held(const struct gck_held *h, pid_t tid)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].tid == tid)
			return true;
	return false;
}

static int add(struct gck_held *h, pid_t tid, struct gck_error *err)
{
	if (h->n == h->capacity) {
		size_t capacity = h->capacity ? h->capacity * 2 : 64;
		struct gck_held_thread *v = realloc(h->v, capacity * sizeof(*v));

		if (!v)
			return gck_fail(err, ENOMEM, "out of memory for the list of threads");
		h->v = v;
		h->capacity = capacity;
	}
	h->v[h->n++] = (struct gck_held_thread){.tid = tid};
	return 0;
}

/* Ask one thread to stop. 1: it is ending or gone. */
static int seize(struct gck_held *h, const struct gck_target *t, pid_t tid, struct gck_error *err)
{
	char name[64], state;

	if (gck_trace_seize(tid, 0) == 0) {
		if (add(h, tid, err)) {
			ptrace(PTRACE_DETACH, tid, 0, 0);
			return -1;
		}
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		return 0;
	}
	if (errno == ESRCH)
		return 1;
	if (errno != EPERM)
		return gck_fail(err, errno, "cannot trace thread %d: %s", (int)tid,
				strerror(errno));
	state = describe(t, tid, name);
	if (state == 'Z' || state == 'X' || state == '?')
		return 1;
	return gck_fail(err, EPERM, "%s cannot be traced: a debugger has it, or tracing is not "
			"permitted here (kernel.yama.ptrace_scope above 1, or a program with other "
			"rights); end the debugger", name);
}

/* Ask every thread that is not held yet. found: their number. */
static int seize_new(struct gck_held *h, const struct gck_target *t, size_t *found,
		     struct gck_error *err)
{
	int *tids;
	size_t n;

	*found = 0;
	if (gck_proc_list(t->proc, "task", &tids, &n, err))
		return gck_fail(err, ESRCH, "process %d has ended", (int)t->pid);
	for (size_t i = 0; i < n; i++) {
		int gone;

		if (tids[i] == t->shim->helper_tid || held(h, tids[i]) ||
		    gck_proc_is_worker(t->proc, tids[i]))
			continue;
		gone = seize(h, t, tids[i], err);
		if (gone < 0 || (gone && tids[i] == t->pid)) {
			free(tids);
			return gone < 0 ? -1 : gck_fail(err, ESRCH, "the main thread of process %d "
							"has ended", (int)t->pid);
		}
		*found += !gone;
	}
	free(tids);
	return 0;
}

/* Remove a thread that ended while it was being stopped. */
static void forget(struct gck_held *h, struct gck_held_thread *x)
{
	siginfo_t info;

	waitid(P_PID, (id_t)x->tid, &info, WEXITED | WNOHANG | __WALL);
	*x = h->v[--h->n];
}

/* It stopped to take a signal, which goes into the image, and to the thread on release. */
static int note_signal(struct gck_held_thread *x, int signal, struct gck_error *err)
{
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, x->tid, 0, &info))
		return gck_fail(err, errno, "cannot read signal %d of thread %d: %s", signal,
				(int)x->tid, strerror(errno));
	x->signal = signal;
	memcpy(&x->info, &info, sizeof(x->info));
	return 0;
}

/* 1: stopped, 0: not yet, -1: failed. WNOWAIT leaves the signal for the kernel. */
static int look(struct gck_held *h, const struct gck_target *t, struct gck_held_thread *x,
		struct gck_error *err)
{
	siginfo_t info = {0};
	char name[64];
	int event, signal;

	if (waitid(P_PID, (id_t)x->tid, &info,
		   WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL) && errno != EINTR)
		return gck_fail(err, errno, "cannot wait for thread %d: %s", (int)x->tid,
				strerror(errno));
	if (info.si_pid == 0)
		return 0;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
		bool main_thread = x->tid == t->pid;

		forget(h, x);
		return main_thread ? gck_fail(err, ESRCH, "process %d has ended", (int)t->pid) : 1;
	}
	event = info.si_status >> 8;
	signal = info.si_status & 0x7f;
	x->stopped = true;
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP && !h->stopped_too) {
		describe(t, x->tid, name);
		return gck_fail(err, EBUSY, "%s is stopped by signal %d; " GCK_PROC_CONTINUE, name,
				signal);
	}
	if (gck_threads_spare_call(x->tid) && errno != ESRCH)
		return gck_fail(err, errno, "cannot move registers of thread %d: %s", (int)x->tid,
				strerror(errno));
	return event == 0 && note_signal(x, signal, err) ? -1 : 1;
}

static int name_late(const struct gck_target *t, pid_t tid, int timeout_ms, struct gck_error *err)
{
	char name[64], state = describe(t, tid, name);

	return gck_fail(err, ETIMEDOUT, "%s did not stop within %d ms: its state is %c%s", name,
			timeout_ms, state, state == 'D' ? " (it waits in the kernel, for a file "
			"system or for a child that shares its memory); try again later" : "");
}

/* Wait until every thread that was asked has stopped. */
static int wait_all(struct gck_held *h, const struct gck_target *t, int64_t end, int timeout_ms,
		    struct gck_error *err)
{
	unsigned looks = 0;

	for (size_t i = 0; i < h->n;) {
		int done = h->v[i].stopped ? 1 : look(h, t, &h->v[i], err);

		if (done < 0)
			return -1;
		if (done) {
			i += i < h->n && h->v[i].stopped;
			continue;
		}
		if (clock_ns(CLOCK_MONOTONIC) > end)
			return name_late(t, h->v[i].tid, timeout_ms, err);
		if (++looks % ASK_AGAIN == 0)
			ptrace(PTRACE_INTERRUPT, h->v[i].tid, 0, 0);
		gck_threads_pause(looks);
	}
	return 0;
}

int gck_threads_hold(struct gck_held *h, const struct gck_target *t, int timeout_ms,
		     struct gck_error *err)
{
	int64_t end = clock_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000ll;
	size_t found;

	h->first_ns = clock_ns(CLOCK_REALTIME);
	do {
		if (seize_new(h, t, &found, err) || wait_all(h, t, end, timeout_ms, err)) {
			gck_threads_release(h);
			return -1;
		}
	} while (found);
	h->whole = true;
	return 0;
}

/* Detaching needs a stopped thread. A thread that was asked to stop does so very soon; one in an
 * uninterruptible sleep is released when this process ends. */
static void release(const struct gck_held_thread *x)
{
	struct timespec pause = {.tv_nsec = POLL_NS};

	for (int i = 0; i < 2000; i++) {
		siginfo_t info = {0};
		int signal = x->signal;

		if (!x->stopped && !waitid(P_PID, (id_t)x->tid, &info,
					   WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL) &&
		    info.si_pid && !(info.si_status >> 8))
			signal = info.si_status & 0x7f;
		if (ptrace(PTRACE_DETACH, x->tid, 0, signal) == 0)
			return;
		if (x->stopped || (info.si_pid && info.si_code != CLD_TRAPPED)) {
			waitid(P_PID, (id_t)x->tid, &info, WEXITED | WNOHANG | __WALL);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

void gck_threads_release(struct gck_held *h)
{
	if (!h->n)
		return;
	for (size_t i = 0; i < h->n; i++)
		release(&h->v[i]);
	h->last_ns = clock_ns(CLOCK_REALTIME);
	free(h->v);
	h->v = NULL;
	h->n = h->capacity = 0;
	h->whole = false;
}
