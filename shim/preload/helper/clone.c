/* SPDX-License-Identifier: Apache-2.0
 * The frozen clone: a copy-on-write fork of the rank that never runs the program. The rank's image
 * is written from it while the rank runs on. It exits when its socket closes. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shim/preload/helper/raw.h"

#define MOST_FDS (1u << 20)

/* Have the kernel kill a clone before any rank if memory runs out. */
static void offer_to_oom_killer(void)
{
	int fd = gck_raw(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	gck_raw(SYS_write, fd, "1000", 4);
	gck_raw(SYS_close, fd);
}

/* Linux before 5.9 has no close_range. */
static void close_one_by_one(unsigned keep)
{
	struct rlimit limit;
	unsigned end = MOST_FDS;

	if (gck_raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit) == 0 && limit.rlim_max < end)
		end = limit.rlim_max;
	for (unsigned fd = 0; fd < end; fd++) {
		if (fd != keep)
			gck_raw(SYS_close, fd);
	}
}

/* The clone must not hold the rank's ports, pipe ends and locks. */
static void close_all_but(unsigned keep)
{
	long r = gck_raw(SYS_close_range, keep + 1, ~0u, 0);

	if (r == 0 && keep > 0)
		r = gck_raw(SYS_close_range, 0, keep - 1, 0);
	if (r < 0)
		close_one_by_one(keep);
}

/* Copy pages out for the reader (doc/shim-link.md), which is faster than reading them from outside.
 * If a packet brought a descriptor, the answer has its number here. */
static void serve(int life)
{
	struct gck_link_msg m;
	int passed;
	long r;

	for (;;) {
		passed = -1;
		r = gck_link_take(life, &m, &passed, 0);
		if (r == -EINTR)
			continue;
		if (r <= 0 || m.type != GCK_LINK_CALLS)
			return;
		gck_helper_run(&m);
		if (gck_link_send(life, &m, GCK_LINK_RESULTS, passed) < 0)
			return;
	}
}

/* No death signal: if the rank exits while its image is written, the image is still useful. */
static _Noreturn void be_frozen(int life, struct gck_link_msg *first)
{
	char byte = GCK_LINK_FROZEN;

	gck_raw(SYS_prctl, PR_SET_NAME, "gpuckpt-clone");
	gck_tracer_allow(gck_state.tracer);
	offer_to_oom_killer();
	gck_helper_run(first);
	close_all_but(life);
	gck_raw(SYS_sendto, life, &byte, 1, MSG_NOSIGNAL, 0, 0);
	serve(life);
	for (;;)
		gck_raw(SYS_exit_group, 0);
}

long gck_clone_make(int life, struct gck_link_msg *first)
{
	/* No exit signal: the program gets no SIGCHLD, and its waitpid(-1) does not see it. */
	long pid = gck_raw(SYS_clone, 0, 0, 0, 0, 0);

	if (pid == 0)
		be_frozen(life, first);
	return pid;
}

long gck_clone_end(int32_t pid)
{
	char info[128]; /* the size of siginfo_t, which the kernel writes whole */
	long r = gck_raw(SYS_waitid, P_PID, pid, info, WEXITED | WNOHANG | WNOWAIT | __WCLONE, 0);

	if (r < 0)
		return r;
	gck_raw(SYS_kill, pid, SIGKILL);
	do
		r = gck_raw(SYS_wait4, pid, 0, __WCLONE, 0);
	while (r == -EINTR);
	return r;
}
