/* SPDX-License-Identifier: Apache-2.0
 * For tests: kills the copy in the living process. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

#define HOLD_MS 2000
#define SIGNAL 33 /* libc's internal one for setuid(), which no thread can block */
#define RESTORER 0x04000000ul

static void end_here(int sig)
{
	(void)sig;
	gck_raw(SYS_exit, 0);
}

static bool is_alive(int32_t tid)
{
	return gck_raw(SYS_tgkill, gck_raw(SYS_getpid), tid, 0) == 0;
}

static const int32_t *tids(void)
{
	return (const int32_t *)(uintptr_t)gck_namespace.owned->threads;
}

static bool any_alive(void)
{
	for (uint64_t i = 0; i < gck_namespace.owned->nthreads; i++) {
		if (tids()[i] && is_alive(tids()[i]))
			return true;
	}
	return false;
}

/* Sends each thread a signal whose handler ends it. The handler never returns, so the restorer that
 * the kernel demands may be NULL. */
static int end_threads(struct gck_error *err)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { .handler = end_here, .flags = RESTORER }, before;
	struct timespec pause = { .tv_nsec = 1000000 };
	int tries = HOLD_MS;

	gck_raw(SYS_rt_sigaction, SIGNAL, &action, &before, sizeof before.mask);
	for (uint64_t i = 0; i < gck_namespace.owned->nthreads; i++) {
		if (tids()[i])
			gck_raw(SYS_tgkill, gck_raw(SYS_getpid), tids()[i], SIGNAL);
	}
	while (any_alive() && --tries)
		nanosleep(&pause, NULL);
	gck_raw(SYS_rt_sigaction, SIGNAL, &before, NULL, sizeof before.mask);
	if (!tries)
		return gck_fail(err, ETIMEDOUT, "a thread of the %s %s did not end",
				gck_namespace.library->name, gck_namespace_library());
	return 0;
}

static void close_fds(void)
{
	const int32_t *fds = (const int32_t *)(uintptr_t)gck_namespace.owned->fds;

	for (uint64_t i = 0; i < gck_namespace.owned->nfds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static void unmap(void)
{
	const struct gck_ns_range *r =
		(const struct gck_ns_range *)(uintptr_t)gck_namespace.owned->ranges;

	for (uint64_t i = 0; i < gck_namespace.owned->nranges; i++) {
		if (r[i].length)
			munmap((void *)(uintptr_t)r[i].start, r[i].length);
	}
}

static int empty_changes_only(struct gck_error *err)
{
	const struct gck_ns_range *r =
		(const struct gck_ns_range *)(uintptr_t)gck_namespace.owned->changes_only;

	for (uint64_t i = 0; i < gck_namespace.owned->nchanges_only; i++) {
		if (mmap((void *)(uintptr_t)r[i].start, r[i].length, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return gck_fail(err, errno, "cannot empty the %s's text: %s",
					gck_namespace.library->name, strerror(errno));
	}
	return 0;
}

int gck_namespace_kill(struct gck_error *err)
{
	if (gck_namespace_hold(HOLD_MS, err) < 0 || end_threads(err) < 0)
		return -1;
	gck_namespace.restarts--;
	close_fds();
	unmap();
	return empty_changes_only(err);
}
