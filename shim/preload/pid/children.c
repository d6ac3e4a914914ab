/* SPDX-License-Identifier: Apache-2.0
 * Making children and waiting for them, interposed: a restored rank's children have the numbers of
 * their first start. The libc functions that are cancellation points stay ones. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define ANY_CHILD (__WALL | __WCLONE | __WNOTHREAD)

/* ---- waiting ------------------------------------------------------------------------------- */

static bool is_end(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
	       info->si_code == CLD_DUMPED;
}

/* Wait for a child and leave it as it is. Its number for the program: a kernel's number would be
 * wrong if a restart came next. 0: none yet, -1: errno. */
static int32_t peek(idtype_t type, id_t id, siginfo_t *info, int options)
{
	bool named = type == P_PID || type == P_PGID;
	uint32_t start;
	int32_t vpid;

	do {
		start = gck_start();
		memset(info, 0, sizeof *info);
		if (gck_real()->waitid(type, named ? (id_t)gck_id_to_kernel(id) : id, info,
				       options | WNOWAIT))
			vpid = -1;
		else
			vpid = gck_id_to_program(info->si_pid);
	} while (gck_start() != start && (vpid >= 0 || errno == ECHILD));
	return vpid;
}

/* The raw result of waitid for this child. Another thread may have been first. */
static long reap(int32_t vpid, siginfo_t *info, int options, struct rusage *usage)
{
	uint32_t start = gck_start();
	int32_t rpid = gck_id_to_kernel(vpid);
	long r = gck_call_in(start, SYS_waitid, P_PID, rpid, info, options | WNOHANG, usage);

	if (r == 0 && info->si_pid && is_end(info))
		gck_child_forget(vpid, rpid);
	return r;
}

static int wait_for(idtype_t type, id_t id, siginfo_t *info, int options, struct rusage *usage)
{
	siginfo_t own;
	int32_t vpid;
	long r;

	do {
		vpid = peek(type, id, &own, options);
		if (vpid <= 0)
			break;
		r = options & WNOWAIT ? 0 : reap(vpid, &own, options, usage);
		if (r < 0 && r != -ECHILD && r != GCK_STALE)
			return gck_result(r);
	} while (r || !own.si_pid);
	if (vpid < 0)
		return -1;
	own.si_pid = vpid;
	if (info)
		*info = own;
	return 0;
}

GCK_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return wait_for(type, id, info, options, NULL);
}

int gck_waitid_usage(idtype_t type, id_t id, siginfo_t *info, int options, struct rusage *usage)
{
	return wait_for(type, id, info, options, usage);
}

static int status_of(const siginfo_t *info)
{
	switch (info->si_code) {
	case CLD_EXITED:
		return W_EXITCODE(info->si_status, 0);
	case CLD_KILLED:
		return info->si_status;
	case CLD_DUMPED:
		return info->si_status | WCOREFLAG;
	case CLD_CONTINUED:
		return __W_CONTINUED;
	default:
		return W_STOPCODE(info->si_status);
	}
}

GCK_EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	idtype_t type = pid == -1 ? P_ALL : pid > 0 ? P_PID : P_PGID;
	siginfo_t info = {0};
	pid_t id = pid > 0 ? pid : pid ? -pid : getpgrp();

	if (options & ~(WNOHANG | WUNTRACED | WCONTINUED | ANY_CHILD))
		return gck_result(-EINVAL);
	if (wait_for(type, id, &info, options | WEXITED, usage))
		return -1;
	if (info.si_pid && status)
		*status = status_of(&info);
	return info.si_pid;
}

GCK_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, NULL);
}

GCK_EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

GCK_EXPORT pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

/* Write what is left and close the child's end, which stays a descriptor for libc to close. */
static void close_pipe(FILE *f)
{
	long other;

	fflush(f);
	other = gck_raw(SYS_eventfd2, 0, EFD_CLOEXEC);
	if (other < 0)
		return;
	gck_raw(SYS_dup3, other, fileno(f), O_CLOEXEC);
	gck_raw(SYS_close, other);
}

/* libc's pclose() waits by a system call of its own, for the number that it has behind the FILE and
 * its table of functions. Take the child's status first, so that libc finds no child. */
GCK_EXPORT int pclose(FILE *f)
{
	int32_t *pid = (int32_t *)(void *)((char *)(f + 1) + sizeof(void *));
	int32_t vpid = *pid;
	int status, cancel;
	pid_t ended;

	if (vpid <= 0 || !gck_is_child(vpid))
		return gck_real()->pclose(f);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	close_pipe(f);
	do
		ended = waitpid(vpid, &status, 0);
	while (ended < 0 && errno == EINTR);
	pthread_setcancelstate(cancel, NULL);
	*pid = INT_MAX;
	gck_real()->pclose(f);
	return ended == vpid ? status : -1;
}

/* ---- making -------------------------------------------------------------------------------- */

static pid_t made(pid_t pid, uint32_t start)
{
	return pid > 0 && start && gck_is_rank() ? gck_child_make_unique(pid, start) : pid;
}

/* The start is read last: a restart between that and the fork would make the child's number one of
 * the former start. */
GCK_EXPORT pid_t fork(void)
{
	const struct gck_real *real = gck_real();
	bool watched = gck_fork_begin();
	uint32_t start = gck_start();
	pid_t pid = real->fork();

	if (watched)
		gck_fork_end(!pid);
	return made(pid, start);
}

/* Without the handlers of pthread_atfork. */
GCK_EXPORT pid_t _Fork(void)
{
	const struct gck_real *real = gck_real();
	bool watched = gck_fork_begin();
	uint32_t start = gck_start();
	pid_t pid = real->_Fork();

	if (watched)
		gck_fork_end(!pid);
	if (!pid)
		gck_child_begin();
	return made(pid, start);
}
