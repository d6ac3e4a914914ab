/* SPDX-License-Identifier: Apache-2.0
 * System calls during which the helper must not exist. For some the kernel demands a single
 * thread: unshare and setns of a user or time namespace. By others the calling thread parts with
 * the helper, which would keep the program's pipes open or its old directory in use. So the helper
 * of a program with one thread ends before such a call, and starts again after it. */
#include "config.h"

#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <unistd.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* A filter for all threads may kill the process at a system call of the helper. */
static bool filters_all_threads(long nr, long operation, long flags)
{
	return nr == SYS_seccomp && operation == SECCOMP_SET_MODE_FILTER &&
	       flags & SECCOMP_FILTER_FLAG_TSYNC;
}

bool gck_wants_one_thread(long nr, long a, long b, long c)
{
	return nr == SYS_unshare || nr == SYS_setns ||
	       (nr == SYS_close_range && c & CLOSE_RANGE_UNSHARE) || filters_all_threads(nr, a, b);
}

/* Without a helper this is no rank any more, and a checkpoint of the step is refused. The kernel
 * makes no thread here after unshare(CLONE_NEWPID). */
static void start_helper(void)
{
	long tid = gck_helper_start();

	gck_state.helper_tid = tid > 0 ? tid : 0;
}

long gck_call_alone(long nr, long a, long b, long c)
{
	bool ended = gck_state.helper_tid && gck_is_rank() && gck_helper_end();
	long r = gck_raw(nr, a, b, c);

	if (ended && filters_all_threads(nr, a, b) && r == 0)
		gck_state.helper_tid = 0;
	else if (ended)
		start_helper();
	return r;
}

GCK_EXPORT int unshare(int flags)
{
	return gck_result(gck_call_alone(SYS_unshare, flags, 0, 0));
}

GCK_EXPORT int setns(int fd, int type)
{
	return gck_result(gck_call_alone(SYS_setns, fd, type, 0));
}

GCK_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (flags & CLOSE_RANGE_UNSHARE)
		return gck_result(gck_call_alone(SYS_close_range, first, last, flags));
	return gck_result(gck_raw(SYS_close_range, first, last, flags));
}
