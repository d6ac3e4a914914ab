/* SPDX-License-Identifier: Apache-2.0
 * The frozen clone: a copy-on-write fork of the rank that never runs the program. The rank's image
 * is written from it while the rank runs on. It exits when its socket closes. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

#define MOST_FDS (1u << 20)
#define PAUSE_NS 1000000
#define MOST_TRIES 1000 /* of a call for which the kernel found no memory */

static bool watched;      /* forks of the program are counted */
static uint32_t forking;  /* threads of the program that fork now */
static uint32_t withheld; /* memory is marked not to be forked, for the clone */

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
		gck_helper_run(&m, 0, m.ncalls);
		if (gck_link_send(life, &m, GCK_LINK_RESULTS, passed) < 0)
			return;
	}
}

/* No death signal: if the rank exits while its image is written, the image is still useful. */
static _Noreturn void be_frozen(int life, struct gck_link_msg *m)
{
	char byte = GCK_LINK_FROZEN;

	gck_clone_forget(); /* its memory becomes the image */
	gck_raw(SYS_prctl, PR_SET_NAME, "gpuckpt-clone");
	gck_tracer_allow(gck_state.tracer);
	offer_to_oom_killer();
	gck_helper_run(m, m->number, m->ncalls);
	close_all_but(life);
	gck_raw(SYS_sendto, life, &byte, 1, MSG_NOSIGNAL, 0, 0);
	serve(life);
	for (;;)
		gck_raw(SYS_exit_group, 0);
}

/* ---- memory that the clone need not have ---------------------------------------------------- */

void gck_clone_forget(void)
{
	__atomic_store_n(&withheld, 0, __ATOMIC_SEQ_CST);
}

/* Of a fork by the program and a clone without all memory, the first goes on and the other waits,
 * or has all. */
bool gck_fork_begin(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (!__atomic_load_n(&watched, __ATOMIC_SEQ_CST))
		return false;
	for (;;) {
		__atomic_add_fetch(&forking, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&withheld, __ATOMIC_SEQ_CST))
			return true;
		__atomic_sub_fetch(&forking, 1, __ATOMIC_SEQ_CST);
		gck_raw(SYS_nanosleep, &pause, 0);
	}
}

void gck_fork_watch(void)
{
	__atomic_store_n(&watched, true, __ATOMIC_SEQ_CST);
}

void gck_fork_end(bool child)
{
	if (child)
		__atomic_store_n(&forking, 0, __ATOMIC_SEQ_CST);
	else
		__atomic_sub_fetch(&forking, 1, __ATOMIC_SEQ_CST);
}

/* How many calls were run: all or none. */
static uint32_t withhold(struct gck_link_msg *m)
{
	uint32_t n = m->number < m->ncalls ? m->number : m->ncalls;

	__atomic_store_n(&withheld, 1, __ATOMIC_SEQ_CST);
	if (!watched || __atomic_load_n(&forking, __ATOMIC_SEQ_CST))
		n = 0;
	gck_helper_run(m, 0, n);
	return n;
}

/* A call that failed may have marked a part. */
static void give_back(const struct gck_link_msg *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (int tries = 0; tries < MOST_TRIES; tries++)
			if (gck_raw(SYS_madvise, m->calls[i].args[0], m->calls[i].args[1],
				    MADV_DOFORK) != -ENOMEM)
				break;
	__atomic_store_n(&withheld, 0, __ATOMIC_SEQ_CST);
}

long gck_clone_make(int life, struct gck_link_msg *m)
{
	uint32_t n = withhold(m);
	long pid;

	/* No exit signal: the program gets no SIGCHLD, and its waitpid(-1) does not see it. */
	pid = gck_raw(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0)
		be_frozen(life, m);
	give_back(m, n);
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
