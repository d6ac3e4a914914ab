/* SPDX-License-Identifier: Apache-2.0
 * libc's functions on a thread, interposed: libc passes its cached TID to the kernel, which in a
 * restored rank is the thread's virtual TID. Functions in which libc does more than one system call
 * go to libc for threads without a virtual TID. */
#include "config.h"

#include "shim/preload/pid/pid.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "shim/preload/pid/virtual_ids.h"

#define NAME_SIZE 16

/* ---- numbers ------------------------------------------------------------------------------- */

static int32_t now_in_kernel(pthread_t thread)
{
	return gck_id_to_kernel(__atomic_load_n(gck_tid_of(thread), __ATOMIC_ACQUIRE));
}

/* A system call whose first argument is the thread's number. */
static long call_on(pthread_t thread, long nr, long b, long c)
{
	uint32_t start;
	long r;

	do {
		start = gck_start();
		r = gck_call_in(start, nr, now_in_kernel(thread), b, c);
	} while (r == GCK_STALE);
	return r;
}

int32_t gck_kernel_tid(pthread_t thread)
{
	int32_t vtid, rtid;
	uint32_t start;

	do {
		start = gck_start();
		if (GCK_LIKELY(!start) || !gck_state.tid_offset)
			return 0;
		vtid = __atomic_load_n(gck_tid_of(thread), __ATOMIC_ACQUIRE);
		rtid = gck_id_to_kernel(vtid);
	} while (gck_start() != start);
	return vtid > 0 && rtid != vtid ? rtid : 0;
}

/* ---- start and end ------------------------------------------------------------------------- */

struct start {
	void *(*function)(void *);
	void *arg;
	int32_t settled;
};

static void *run(void *p)
{
	struct start *s = p;
	void *(*function)(void *) = s->function;
	void *arg = s->arg;

	gck_tid_make_unique();
	gck_cancel_forget();
	__atomic_store_n(&s->settled, 1, __ATOMIC_RELEASE);
	gck_raw(SYS_futex, &s->settled, FUTEX_WAKE_PRIVATE, 1);
	return function(arg);
}

/* The creator waits until the thread has its number, since it may use it at once. */
GCK_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			      void *(*function)(void *), void *arg)
{
	struct start s = { .function = function, .arg = arg };
	int r;

	if (gck_is_original() || !gck_is_rank())
		return gck_real()->pthread_create(thread, attr, function, arg);
	r = gck_real()->pthread_create(thread, attr, run, &s);
	while (r == 0 && !__atomic_load_n(&s.settled, __ATOMIC_ACQUIRE))
		gck_raw(SYS_futex, &s.settled, FUTEX_WAIT_PRIVATE, 0, 0);
	return r;
}

/* ---- signals ------------------------------------------------------------------------------- */

/* A thread that has ended and was not joined is not an error. */
static int signal_result(pthread_t thread, long r)
{
	if (r == -ESRCH && __atomic_load_n(gck_tid_of(thread), __ATOMIC_ACQUIRE) == 0)
		return 0;
	return -r;
}

static bool is_internal(int sig)
{
	return sig == GCK_SIGCANCEL || sig == GCK_SIGCANCEL + 1;
}

long gck_signal_thread(pthread_t thread, int sig, siginfo_t *info)
{
	int32_t tid, pid;
	uint32_t start;
	long r;

	do {
		start = gck_start();
		tid = now_in_kernel(thread);
		pid = gck_raw(SYS_getpid);
		if (!info) {
			r = gck_call_in(start, SYS_tgkill, pid, tid, sig);
			continue;
		}
		info->si_pid = pid;
		r = gck_call_in(start, SYS_rt_tgsigqueueinfo, pid, tid, sig, info);
	} while (r == GCK_STALE);
	return r;
}

GCK_EXPORT int pthread_kill(pthread_t thread, int sig)
{
	if (!gck_state.tid_offset || is_internal(sig))
		return gck_real()->pthread_kill(thread, sig);
	return signal_result(thread, gck_signal_thread(thread, sig, NULL));
}

GCK_EXPORT int pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	siginfo_t info;

	if (!gck_state.tid_offset || is_internal(sig))
		return gck_real()->pthread_sigqueue(thread, sig, value);
	memset(&info, 0, sizeof info);
	info.si_signo = sig;
	info.si_code = SI_QUEUE;
	info.si_uid = gck_raw(SYS_getuid);
	info.si_value = value;
	return signal_result(thread, gck_signal_thread(thread, sig, &info));
}

/* ---- scheduling ---------------------------------------------------------------------------- */

GCK_EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
	if (!gck_state.tid_offset)
		return gck_real()->pthread_setaffinity_np(thread, size, set);
	return -call_on(thread, SYS_sched_setaffinity, size, (long)set);
}

GCK_EXPORT int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set)
{
	long n;

	if (!gck_state.tid_offset)
		return gck_real()->pthread_getaffinity_np(thread, size, set);
	n = call_on(thread, SYS_sched_getaffinity, size < INT32_MAX ? size : INT32_MAX, (long)set);
	if (n < 0)
		return -n;
	memset((char *)set + n, 0, size - n);
	return 0;
}

GCK_EXPORT int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
	if (!gck_kernel_tid(thread))
		return gck_real()->pthread_setschedparam(thread, policy, param);
	return -call_on(thread, SYS_sched_setscheduler, policy, (long)param);
}

GCK_EXPORT int pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *param)
{
	long r;

	if (!gck_kernel_tid(thread))
		return gck_real()->pthread_getschedparam(thread, policy, param);
	r = call_on(thread, SYS_sched_getparam, (long)param, 0);
	if (r == 0 && (r = call_on(thread, SYS_sched_getscheduler, 0, 0)) >= 0) {
		*policy = r;
		return 0;
	}
	return -r;
}

GCK_EXPORT int pthread_setschedprio(pthread_t thread, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (!gck_kernel_tid(thread))
		return gck_real()->pthread_setschedprio(thread, priority);
	return -call_on(thread, SYS_sched_setparam, (long)&param, 0);
}

/* ---- names --------------------------------------------------------------------------------- */

static long open_comm(pthread_t thread, int flags)
{
	char path[sizeof "/proc/self/task/4294967295/comm"];

	snprintf(path, sizeof path, "/proc/self/task/%d/comm",
		 __atomic_load_n(gck_tid_of(thread), __ATOMIC_ACQUIRE));
	return gck_call(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

GCK_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	size_t n = strlen(name);
	long fd, r;

	if (!gck_kernel_tid(thread))
		return gck_real()->pthread_setname_np(thread, name);
	if (n >= NAME_SIZE)
		return ERANGE;
	if ((fd = open_comm(thread, O_WRONLY)) < 0)
		return -fd;
	r = gck_raw(SYS_write, fd, name, n);
	gck_raw(SYS_close, fd);
	return r < 0 ? -r : 0;
}

GCK_EXPORT int pthread_getname_np(pthread_t thread, char *name, size_t size)
{
	long fd, n;

	if (!gck_kernel_tid(thread))
		return gck_real()->pthread_getname_np(thread, name, size);
	if (size < NAME_SIZE)
		return ERANGE;
	if ((fd = open_comm(thread, O_RDONLY)) < 0)
		return -fd;
	n = gck_raw(SYS_read, fd, name, size);
	gck_raw(SYS_close, fd);
	if (n < 0)
		return -n;
	name[n > 0 && name[n - 1] == '\n' ? n - 1 : 0] = '\0';
	return 0;
}

/* ---- values that libc derives from a TID --------------------------------------------------- */

/* The kernel's format: the complement of the TID above three bits, here "a thread's", "as
 * scheduled". A clock id from before a restart names a thread that is gone. */
GCK_EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
	int32_t tid = gck_kernel_tid(thread);

	if (!tid)
		return gck_real()->pthread_getcpuclockid(thread, clock);
	*clock = (clockid_t)(~(uint32_t)tid << 3) | 4 | 2;
	return 0;
}

GCK_EXPORT int clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	uint32_t start;
	int r;

	do {
		start = gck_start();
		r = gck_real()->clock_getcpuclockid(gck_id_to_kernel(pid), clock);
	} while (gck_start() != start);
	return r;
}

/* glibc fills in everything before it fails to get the affinity of a TID that the kernel does not
 * know, or gets another thread's. */
GCK_EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	int r = gck_real()->pthread_getattr_np(thread, attr);
	cpu_set_t set[8];
	long n;

	if (!gck_kernel_tid(thread) || (r && r != ESRCH))
		return r;
	n = call_on(thread, SYS_sched_getaffinity, sizeof set, (long)set);
	return n < 0 ? -n : pthread_attr_setaffinity_np(attr, n, set);
}

GCK_EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	struct sigevent kernel;
	uint32_t start;
	int r;

	if (!event || event->sigev_notify != SIGEV_THREAD_ID)
		return gck_real()->timer_create(clock, event, timer);
	do {
		start = gck_start();
		kernel = *event;
		kernel._sigev_un._tid = gck_id_to_kernel(kernel._sigev_un._tid);
		r = gck_real()->timer_create(clock, &kernel, timer);
	} while (r && gck_start() != start);
	return r;
}
