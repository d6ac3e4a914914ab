/* SPDX-License-Identifier: Apache-2.0
 * The process that stops the threads. It makes system calls only: a stopped thread may hold any
 * lock. */
#define _GNU_SOURCE
#include "shim/cuda/gate/thread_stopper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "shim/cuda/gate/stop_world.h"
#include "shim/spared_call.h"

#define NAP_NS 20000
#define LOOK_NS 1000000000ll /* between checks that the caller lives */
#define PF_IO_WORKER 0x10    /* the kernel's, of threads of io_uring's */

static long system1(long number, long a)
{
	return gck_cuda_system(number, a, 0, 0, 0, 0, 0);
}

static long trace(long request, int32_t tid, long data)
{
	return gck_cuda_system(SYS_ptrace, request, tid, 0, data, 0, 0);
}

int64_t gck_cuda_stop_now_ns(void)
{
	struct timespec t;

	gck_cuda_system(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0, 0, 0);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void nap(void)
{
	struct timespec t = {0, NAP_NS};

	gck_cuda_system(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

/* ---- turns ---------------------------------------------------------------------------------- */

int gck_cuda_turn(const struct gck_cuda_stop_world *s)
{
	return __atomic_load_n(&s->turn, __ATOMIC_ACQUIRE);
}

void gck_cuda_turn_wait(struct gck_cuda_stop_world *s, int turn, int64_t ns)
{
	struct timespec t = {ns / 1000000000, ns % 1000000000};

	gck_cuda_system(SYS_futex, (long)&s->turn, FUTEX_WAIT, turn, (long)&t, 0, 0);
}

void gck_cuda_turn_set(struct gck_cuda_stop_world *s, int turn)
{
	__atomic_store_n(&s->turn, turn, __ATOMIC_RELEASE);
	gck_cuda_system(SYS_futex, (long)&s->turn, FUTEX_WAKE, 1, 0, 0, 0);
}

bool gck_cuda_turn_change(struct gck_cuda_stop_world *s, int from, int to)
{
	return __atomic_compare_exchange_n(&s->turn, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ---- threads -------------------------------------------------------------------------------- */

static int give_up(struct gck_cuda_stop_world *s, int error, const char *what)
{
	s->error = error;
	s->what = what;
	return -1;
}

static char *put_text(char *p, const char *text)
{
	while (*text)
		*p++ = *text++;
	*p = '\0';
	return p;
}

static char *put_number(char *p, int32_t n)
{
	char digits[12];
	int k = 0;

	for (; n; n /= 10)
		digits[k++] = (char)('0' + n % 10);
	while (k)
		*p++ = digits[--k];
	*p = '\0';
	return p;
}

static bool is_known(const struct gck_cuda_stop_world *s, int32_t tid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].tid == tid)
			return true;
	}
	return false;
}

/* "/proc/PID/task", or "/proc/PID/task/TID/stat". */
static void path_of(const struct gck_cuda_stop_world *s, int32_t tid, char path[64])
{
	char *p = put_text(path, "/proc/");

	p = put_text(put_number(p, s->pid), "/task");
	if (tid)
		put_text(put_number(put_text(p, "/"), tid), "/stat");
}

static uint32_t number(const char *text)
{
	uint32_t n = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		n = n * 10 + (uint32_t)(*text - '0');
	return n;
}

/* From "TID (NAME) STATE PARENT GROUP SESSION TERMINAL FOREGROUND FLAGS ...". *state: 'X' if it is
 * gone, 0 if it cannot be read. */
static void look_at(const struct gck_cuda_stop_world *s, int32_t tid, char *state, uint32_t *flags)
{
	char path[64], stat[128], *p;
	long fd, n;

	*state = 0;
	*flags = 0;
	path_of(s, tid, path);
	fd = gck_cuda_system(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	n = fd < 0 ? fd : gck_cuda_system(SYS_read, fd, (long)stat, sizeof stat - 1, 0, 0, 0);
	if (fd >= 0)
		system1(SYS_close, fd);
	if (n == -ENOENT || n == -ESRCH)
		*state = 'X';
	if (n < 4)
		return;
	stat[n] = '\0';
	for (p = stat + n - 3; p > stat && *p != ')'; p--)
		;
	*state = p[2];
	for (int blanks = 0; *p && blanks < 7; p++)
		blanks += *p == ' ';
	*flags = number(p);
}

static bool is_ended(char state)
{
	return state == 'Z' || state == 'X';
}

/* A main thread that ended before the others stays in the list, and counts as stopped, as those
 * that have ended do. A thread of io_uring's runs nothing of the program, and a stop would cut
 * short what it does for a request. */
static int seize(struct gck_cuda_stop_world *s, int32_t tid)
{
	uint32_t flags;
	char state;
	long rc;

	if (s->n == s->most)
		return give_up(s, E2BIG, "there are too many threads");
	look_at(s, tid, &state, &flags);
	if (flags & PF_IO_WORKER)
		return 0;
	rc = trace(PTRACE_SEIZE, tid, 0);
	if (rc == -EPERM)
		look_at(s, tid, &state, &flags);
	if (rc == -ESRCH || (rc == -EPERM && is_ended(state)))
		return 0;
	if (rc == -EPERM && gck_cuda_stop_now_ns() < s->traced_end_ns) {
		s->again = true;
		return 0;
	}
	if (rc)
		return give_up(s, (int)-rc, "a thread cannot be traced");
	s->v[s->n++] = (struct gck_cuda_stopped_thread){.tid = tid};
	trace(PTRACE_INTERRUPT, tid, 0);
	return 0;
}

/* An entry as getdents64 returns it. */
struct entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

static int seize_listed(struct gck_cuda_stop_world *s, const char *list, long size)
{
	for (long at = 0; at < size;) {
		const struct entry *e = (const void *)(list + at);
		int32_t tid = (int32_t)number(e->name);

		if (tid && tid != s->tid && !is_known(s, tid) && seize(s, tid))
			return -1;
		at += e->size;
	}
	return 0;
}

/* Seize all threads of the list as it is now. */
static int seize_all(struct gck_cuda_stop_world *s)
{
	char path[64], list[4096] __attribute__((aligned(8)));
	long fd, n = 0;
	int failed = 0;

	s->again = false;
	path_of(s, 0, path);
	fd = gck_cuda_system(SYS_open, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0, 0);
	if (fd < 0)
		return give_up(s, (int)-fd, "the list of threads cannot be read");
	while (!failed &&
	       (n = gck_cuda_system(SYS_getdents64, fd, (long)list, sizeof list, 0, 0, 0)) > 0)
		failed = seize_listed(s, list, n);
	system1(SYS_close, fd);
	if (n < 0)
		return give_up(s, (int)-n, "the list of threads cannot be read");
	return failed;
}

static void spare_call(int32_t tid)
{
	struct user_regs_struct r;

	if (!trace(PTRACE_GETREGS, tid, (long)&r) && gck_call_spared(&r))
		trace(PTRACE_SETREGS, tid, (long)&r);
}

/* A signal that stopped the thread is delivered to it later. */
static int wait_one(struct gck_cuda_stop_world *s, struct gck_cuda_stopped_thread *t)
{
	int status;
	long rc;

	while (!t->stopped) {
		rc = gck_cuda_system(SYS_wait4, t->tid, (long)&status, __WALL | WNOHANG, 0, 0, 0);
		if (rc == 0 && gck_cuda_stop_now_ns() > s->end_ns)
			return give_up(s, ETIMEDOUT, "a thread does not leave the kernel");
		if (rc == 0) {
			nap();
			continue;
		}
		t->stopped = true;
		if (rc == t->tid && WIFSTOPPED(status))
			spare_call(t->tid);
		if (rc == t->tid && WIFSTOPPED(status) && status >> 16 == 0)
			t->signal = WSTOPSIG(status);
	}
	return 0;
}

/* Repeat until no new thread is listed: running threads may make others. */
static int stop_all(struct gck_cuda_stop_world *s)
{
	size_t stopped = 0;

	do {
		if (seize_all(s))
			return -1;
		for (; stopped < s->n; stopped++) {
			if (wait_one(s, &s->v[stopped]))
				return -1;
		}
		if (s->again)
			nap();
		if (seize_all(s))
			return -1;
	} while (stopped < s->n || s->again);
	return 0;
}

/* The kernel releases threads that were not waited for when this process ends: such a thread may
 * be about to take a signal, which a detach would lose. */
static void let_go(const struct gck_cuda_stop_world *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].stopped)
			trace(PTRACE_DETACH, s->v[i].tid, s->v[i].signal);
	}
}

/* Wait until the caller ends the stop, does not come back from a pause in time, or dies. */
static void hold(struct gck_cuda_stop_world *s)
{
	for (;;) {
		int turn = gck_cuda_turn(s);
		int64_t ns = turn == GCK_CUDA_PAUSED ? s->pause_end_ns - gck_cuda_stop_now_ns()
						     : LOOK_NS;

		if (turn == GCK_CUDA_OVER || system1(SYS_getppid, 0) != s->pid ||
		    (ns <= 0 && gck_cuda_turn_change(s, GCK_CUDA_PAUSED, GCK_CUDA_OVER)))
			return;
		if (ns > 0)
			gck_cuda_turn_wait(s, turn, ns);
	}
}

int gck_cuda_thread_stopper(void *stop_world)
{
	struct gck_cuda_stop_world *s = stop_world;

	if (stop_all(s) == 0) {
		s->error = 0;
		gck_cuda_turn_set(s, GCK_CUDA_TAKEN);
		hold(s);
	}
	let_go(s);
	gck_cuda_turn_set(s, GCK_CUDA_OVER);
	gck_cuda_system(SYS_exit_group, 0, 0, 0, 0, 0, 0);
	return 0;
}

