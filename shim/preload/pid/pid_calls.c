/* SPDX-License-Identifier: Apache-2.0
 * System calls that take or return a PID or a TID, and libc's thin wrappers of them, interposed.
 * syscall() is interposed as well, for programs that bypass the wrappers. */
#include "config.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* Whether the command names a process or thread. */
static bool has_owner(int command)
{
	return command == F_SETOWN || command == F_GETOWN || command == F_SETOWN_EX ||
	       command == F_GETOWN_EX || command == F_GETLK;
}

/* Translate a number that a call has returned since this start. */
static int32_t returned(uint32_t start, int32_t id, long *stale)
{
	int32_t number = gck_id_to_program(id);

	if (gck_start() != start)
		*stale = GCK_STALE;
	return number;
}

static long set_owner(uint32_t start, int fd, const struct f_owner_ex *program)
{
	struct f_owner_ex kernel = *program;

	kernel.pid = gck_id_to_kernel(kernel.pid);
	return gck_call_in(start, SYS_fcntl, fd, F_SETOWN_EX, &kernel);
}

static long get_owner(uint32_t start, int fd, struct f_owner_ex *o)
{
	long r = gck_raw(SYS_fcntl, fd, F_GETOWN_EX, o);

	if (r == 0)
		o->pid = returned(start, o->pid, &r);
	return r;
}

static long get_lock(uint32_t start, int fd, struct flock *lock)
{
	struct flock got = *lock;
	long r = gck_raw(SYS_fcntl, fd, F_GETLK, &got);

	if (r == 0 && got.l_type != F_UNLCK)
		got.l_pid = returned(start, got.l_pid, &r);
	if (r == 0)
		*lock = got;
	return r;
}

/* The raw result of such a command. */
static long owner_command(uint32_t start, int fd, int command, long arg)
{
	long r, stale = 0;

	if ((command == F_SETOWN_EX && !gck_is_memory((void *)arg, sizeof(struct f_owner_ex))) ||
	    (command == F_GETLK && !gck_is_memory((void *)arg, sizeof(struct flock))))
		return gck_raw(SYS_fcntl, fd, command, arg);
	switch (command) {
	case F_SETOWN:
		return gck_call_in(start, SYS_fcntl, fd, command, gck_id_to_kernel(arg));
	case F_SETOWN_EX:
		return set_owner(start, fd, (const struct f_owner_ex *)arg);
	case F_GETOWN_EX:
		return get_owner(start, fd, (struct f_owner_ex *)arg);
	case F_GETLK:
		return get_lock(start, fd, (struct flock *)arg);
	default:
		r = returned(start, gck_raw(SYS_fcntl, fd, F_GETOWN), &stale);
		return stale ? stale : r;
	}
}

/* Translate the argument `who` of get- and setpriority or of ioprio_get and _set. */
static long priority_who(long which, long who, long process, long group)
{
	if (which == process)
		return gck_id_to_kernel(who);
	return which == group ? gck_id_to_kernel(who) : who;
}

/* The raw result of a call that returns a number. */
static long number_call(uint32_t start, long nr, long a)
{
	long r = gck_call_in(start, nr, a), stale = 0;

	if (r >= 0)
		r = returned(start, r, &stale);
	return stale ? stale : r;
}

/* The raw result of readlink. It changes no more of the target than the kernel would. */
static long read_link(uint32_t start, long dir, const char *path, char *target, long size)
{
	char space[GCK_PROC_PATH];
	long r;

	if (!gck_path_is_own_link(path) || size <= 0)
		return gck_call_in(start, SYS_readlinkat, dir, gck_path_to_kernel(path, space),
				   target, size);
	r = gck_call_in(start, SYS_readlinkat, dir, path, space, sizeof space - 1);
	if (r < 0)
		return r;
	space[r] = '\0';
	r = gck_link_to_program(space, target, (size_t)size);
	return gck_start() == start ? r : GCK_STALE;
}

/* Which argument of the call is a path. 0: none. */
static int path_argument(long nr)
{
	switch (nr) {
	case SYS_open:
	case SYS_stat:
	case SYS_lstat:
	case SYS_access:
	case SYS_readlink:
		return 1;
	case SYS_openat:
	case SYS_openat2:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_readlinkat:
		return 2;
	default:
		return 0;
	}
}

/* The raw result of such a call. */
static long path_call(uint32_t start, long nr, long a, long b, long c, long d, long e)
{
	char space[GCK_PROC_PATH];

	if (nr == SYS_readlink)
		return read_link(start, AT_FDCWD, (const char *)a, (char *)b, c);
	if (nr == SYS_readlinkat)
		return read_link(start, a, (const char *)b, (char *)c, d);
	if (path_argument(nr) == 1)
		a = (long)gck_path_to_kernel((const char *)a, space);
	else
		b = (long)gck_path_to_kernel((const char *)b, space);
	return gck_call_in(start, nr, a, b, c, d, e);
}

static bool sets_number(unsigned long command)
{
	return command == TIOCSPGRP || command == FIOSETOWN || command == SIOCSPGRP;
}

/* Whether it is about the group in the foreground of a terminal, the session that has it, or the
 * owner of a file. */
static bool has_number(unsigned long command)
{
	return sets_number(command) || command == TIOCGPGRP || command == TIOCGSID ||
	       command == FIOGETOWN || command == SIOCGPGRP;
}

static long number_command(uint32_t start, int fd, unsigned long command, pid_t *id)
{
	pid_t number;
	long r;

	if (!gck_is_memory(id, sizeof *id))
		return gck_raw(SYS_ioctl, fd, command, id);
	if (sets_number(command)) {
		number = gck_id_to_kernel(*id);
		return gck_call_in(start, SYS_ioctl, fd, command, &number);
	}
	r = gck_raw(SYS_ioctl, fd, command, &number);
	if (r == 0)
		*id = returned(start, number, &r);
	return r;
}

static long wait_for_signal(uint32_t start, long set, siginfo_t *info, long timeout, long size)
{
	long sig = gck_call_in(start, SYS_rt_sigtimedwait, set, info, timeout, size);

	if (sig > 0 && info)
		gck_signal_received(info);
	return sig;
}

/* A system call with the PIDs and TIDs among its arguments and result translated in this start. */
static long translated(uint32_t start, long nr, long a, long b, long c, long d, long e, long f)
{
	switch (nr) {
	case SYS_getpid:
	case SYS_getppid:
	case SYS_getpgrp:
	case SYS_gettid:
	case SYS_set_tid_address:
		return number_call(start, nr, a);
	case SYS_getpgid:
	case SYS_getsid:
		return number_call(start, nr, gck_id_to_kernel(a));
	case SYS_fcntl:
		if (has_owner(b))
			return owner_command(start, a, b, c);
		break;
	case SYS_ioctl:
		if (has_number((unsigned long)b))
			return number_command(start, a, (unsigned long)b, (pid_t *)c);
		break;
	case SYS_getsockopt:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendmsg:
	case SYS_sendmmsg:
		return gck_message_call(start, nr, a, b, c, d, e);
	case SYS_rt_sigtimedwait:
		return wait_for_signal(start, a, (siginfo_t *)b, c, d);
	case SYS_kill:
	case SYS_rt_sigqueueinfo:
	case SYS_pidfd_open:
		a = gck_id_to_kernel(a);
		break;
	case SYS_setpgid:
	case SYS_tgkill:
	case SYS_rt_tgsigqueueinfo:
	case SYS_kcmp:
		a = gck_id_to_kernel(a);
		b = gck_id_to_kernel(b);
		break;
	case SYS_tkill:
	case SYS_sched_setaffinity:
	case SYS_sched_getaffinity:
	case SYS_sched_setscheduler:
	case SYS_sched_getscheduler:
	case SYS_sched_setparam:
	case SYS_sched_getparam:
	case SYS_sched_setattr:
	case SYS_sched_getattr:
	case SYS_sched_rr_get_interval:
	case SYS_prlimit64:
	case SYS_process_vm_readv:
	case SYS_process_vm_writev:
	case SYS_get_robust_list:
	case SYS_move_pages:
	case SYS_migrate_pages:
		a = gck_id_to_kernel(a);
		break;
	case SYS_perf_event_open:
		b = gck_id_to_kernel(b);
		break;
	case SYS_getpriority:
	case SYS_setpriority:
		b = priority_who(a, b, PRIO_PROCESS, PRIO_PGRP);
		break;
	case SYS_ioprio_get:
	case SYS_ioprio_set:
		b = priority_who(a, b, IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP);
		break;
	}
	return gck_raw_in(start, nr, a, b, c, d, e, f);
}

static long read_call(long nr, long fd, long to, long n)
{
	const struct iovec whole = { (void *)to, (size_t)n };
	long r;

	do
		r = gck_call_in(gck_start(), nr, fd, to, n);
	while (r == GCK_STALE);
	return gck_was_read((int)fd, nr == SYS_readv ? (const struct iovec *)to : &whole, r);
}

long gck_translated_call(long nr, long a, long b, long c, long d, long e, long f)
{
	long r = GCK_STALE;

	if (gck_is_original())
		r = gck_raw_in(0, nr, a, b, c, d, e, f);
	if (r == GCK_STALE && (nr == SYS_read || nr == SYS_readv))
		r = read_call(nr, a, b, c);
	while (r == GCK_STALE && path_argument(nr))
		r = path_call(gck_start(), nr, a, b, c, d, e);
	while (r == GCK_STALE)
		r = translated(gck_start(), nr, a, b, c, d, e, f);
	return r;
}

/* Under another name in C: the prototype is variadic, and this takes the values in the registers
 * and the first word of the stack, as libc's own does. */
long gck_syscall(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");
GCK_EXPORT long gck_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == SYS_sigaltstack)
		return sigaltstack((const stack_t *)a, (stack_t *)b);
	if (gck_wants_one_thread(nr, a, b, c))
		return gck_result(gck_call_alone(nr, a, b, c));
	if (nr == SYS_wait4)
		return wait4(a, (int *)b, c, (struct rusage *)d);
	if (nr == SYS_waitid)
		return gck_waitid_usage(a, b, (siginfo_t *)c, d, (struct rusage *)e);
	if (nr == SYS_inotify_add_watch)
		return inotify_add_watch(a, (const char *)b, c);
	if (nr == SYS_fanotify_mark)
		return fanotify_mark(a, b, c, d, (const char *)e);
	if (gck_is_ipc(nr))
		return gck_result(gck_ipc_call(nr, a, b, c, d, e));
	if (nr == SYS_prctl)
		return prctl(a, b, c, d, e);
	if (nr == SYS_execve)
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	if (nr == SYS_exit)
		gck_helper_note_exit(a & 255);
	return gck_result(gck_translated_call(nr, a, b, c, d, e, f));
}

/* ---- own numbers --------------------------------------------------------------------------- */

GCK_EXPORT pid_t getpid(void)
{
	return gck_call(SYS_getpid);
}

GCK_EXPORT pid_t getppid(void)
{
	return gck_call(SYS_getppid);
}

GCK_EXPORT pid_t gettid(void)
{
	return gck_call(SYS_gettid);
}

GCK_EXPORT pid_t getpgrp(void)
{
	return gck_call(SYS_getpgrp);
}

GCK_EXPORT pid_t getpgid(pid_t pid)
{
	return gck_result(gck_call(SYS_getpgid, pid));
}

GCK_EXPORT pid_t getsid(pid_t pid)
{
	return gck_result(gck_call(SYS_getsid, pid));
}

GCK_EXPORT int setpgid(pid_t pid, pid_t group)
{
	return gck_result(gck_call(SYS_setpgid, pid, group));
}

GCK_EXPORT pid_t tcgetpgrp(int fd)
{
	pid_t group;

	return gck_result(gck_call(SYS_ioctl, fd, TIOCGPGRP, &group)) ? -1 : group;
}

GCK_EXPORT int tcsetpgrp(int fd, pid_t group)
{
	return gck_result(gck_call(SYS_ioctl, fd, TIOCSPGRP, &group));
}

GCK_EXPORT pid_t tcgetsid(int fd)
{
	pid_t session;

	return gck_result(gck_call(SYS_ioctl, fd, TIOCGSID, &session)) ? -1 : session;
}

/* The prototype is variadic, and a third argument is a word. */
int gck_ioctl(int fd, unsigned long command, long arg) __asm__("ioctl");
GCK_EXPORT int gck_ioctl(int fd, unsigned long command, long arg)
{
	if (has_number(command))
		return gck_result(gck_call(SYS_ioctl, fd, command, arg));
	return GCK_NEXT(ioctl, int (*)(int, unsigned long, long))(fd, command, arg);
}

/* ---- signals ------------------------------------------------------------------------------- */

GCK_EXPORT int kill(pid_t pid, int sig)
{
	return gck_result(gck_call(SYS_kill, pid, sig));
}

GCK_EXPORT int killpg(pid_t group, int sig)
{
	return group < 0 ? gck_result(-EINVAL) : kill(-group, sig);
}

GCK_EXPORT int tgkill(pid_t pid, pid_t tid, int sig)
{
	return gck_result(gck_call(SYS_tgkill, pid, tid, sig));
}

/* The sender's ids are the kernel's: a handler sees those of kill(), too. */
GCK_EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	info.si_signo = sig;
	info.si_code = SI_QUEUE;
	info.si_pid = gck_raw(SYS_getpid);
	info.si_uid = gck_raw(SYS_getuid);
	info.si_value = value;
	return gck_result(gck_call(SYS_rt_sigqueueinfo, pid, sig, &info));
}

GCK_EXPORT int pidfd_open(pid_t pid, unsigned flags)
{
	return gck_result(gck_call(SYS_pidfd_open, pid, flags));
}

/* ---- scheduling and limits ----------------------------------------------------------------- */

GCK_EXPORT int sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	return gck_result(gck_call(SYS_sched_setaffinity, tid, size, set));
}

GCK_EXPORT int sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set)
{
	long n = gck_call(SYS_sched_getaffinity, tid, size < INT32_MAX ? size : INT32_MAX, set);

	if (n < 0)
		return gck_result(n);
	memset((char *)set + n, 0, size - n);
	return 0;
}

GCK_EXPORT int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	return gck_result(gck_call(SYS_sched_setscheduler, tid, policy, param));
}

GCK_EXPORT int sched_getscheduler(pid_t tid)
{
	return gck_result(gck_call(SYS_sched_getscheduler, tid));
}

GCK_EXPORT int sched_setparam(pid_t tid, const struct sched_param *param)
{
	return gck_result(gck_call(SYS_sched_setparam, tid, param));
}

GCK_EXPORT int sched_getparam(pid_t tid, struct sched_param *param)
{
	return gck_result(gck_call(SYS_sched_getparam, tid, param));
}

GCK_EXPORT int sched_rr_get_interval(pid_t tid, struct timespec *interval)
{
	return gck_result(gck_call(SYS_sched_rr_get_interval, tid, interval));
}

/* The kernel returns 20 less the nice value, so that results differ from errors. */
GCK_EXPORT int getpriority(__priority_which_t which, id_t who)
{
	long r = gck_call(SYS_getpriority, which, who);

	return r < 0 ? gck_result(r) : 20 - r;
}

GCK_EXPORT int setpriority(__priority_which_t which, id_t who, int priority)
{
	return gck_result(gck_call(SYS_setpriority, which, who, priority));
}

GCK_EXPORT int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *new,
			 struct rlimit64 *old)
{
	return gck_result(gck_call(SYS_prlimit64, pid, resource, new, old));
}

/* The same on a 64-bit machine. */
GCK_EXPORT int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *new,
		       struct rlimit *old)
{
	return gck_result(gck_call(SYS_prlimit64, pid, resource, new, old));
}

/* ---- another process's memory -------------------------------------------------------------- */

GCK_EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal,
				    const struct iovec *remote, unsigned long nremote,
				    unsigned long flags)
{
	return gck_result(gck_call(SYS_process_vm_readv, pid, local, nlocal, remote, nremote,
				   flags));
}

GCK_EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long nlocal,
				     const struct iovec *remote, unsigned long nremote,
				     unsigned long flags)
{
	return gck_result(gck_call(SYS_process_vm_writev, pid, local, nlocal, remote, nremote,
				   flags));
}

/* ---- fcntl: owners of a file's signals ----------------------------------------------------- */

/* Other commands go to libc, where waiting for a lock is a cancellation point. */
static int owner_call(int fd, int command, long arg)
{
	struct f_owner_ex owner;
	long r;

	if (command != F_GETOWN)
		return gck_result(gck_call(SYS_fcntl, fd, command, arg));
	/* a process group is a negative result, which must not be mistaken for an error */
	r = gck_call(SYS_fcntl, fd, F_GETOWN_EX, &owner);
	if (r < 0)
		return gck_result(r);
	return owner.type == F_OWNER_PGRP ? -owner.pid : owner.pid;
}

/* Under other names in C: the prototypes are variadic. */
int gck_fcntl(int fd, int command, long arg) __asm__("fcntl");
GCK_EXPORT int gck_fcntl(int fd, int command, long arg)
{
	if (!has_owner(command))
		return gck_real()->fcntl(fd, command, arg);
	return owner_call(fd, command, arg);
}

int gck_fcntl64(int fd, int command, long arg) __asm__("fcntl64");
GCK_EXPORT int gck_fcntl64(int fd, int command, long arg)
{
	return gck_fcntl(fd, command, arg);
}
