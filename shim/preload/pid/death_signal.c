/* SPDX-License-Identifier: Apache-2.0
 * The signal that a process gets when its parent ends (PR_SET_PDEATHSIG). Only a thread itself can
 * ask the kernel for it, so that the main thread's is recorded, in the state's features. The
 * kernel keeps it over exec; a child by fork has none. */
#include "config.h"

#include <stdarg.h>
#include <sys/prctl.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* The process that the record is of, by the kernel's number in that start. */
static struct {
	uint32_t restarts;
	int32_t pid;
} owner GCK_AT_START;

static void record(uint32_t signo)
{
	gck_state.features = (gck_state.features & ~GCK_SHIM_DEATH) | signo << GCK_SHIM_DEATH_SHIFT;
}

GCK_EACH void gck_death_begin(void)
{
	int signo = 0;

	owner.restarts = gck_state.restarts;
	owner.pid = gck_state.rpid;
	gck_raw(SYS_prctl, PR_GET_PDEATHSIG, &signo);
	record((uint32_t)signo);
}

GCK_EACH void gck_death_begin_child(int32_t rpid)
{
	owner.restarts = gck_state.restarts;
	owner.pid = rpid;
	if (gck_state.features & GCK_SHIM_DEATH)
		record(0);
}

/* A child by vfork has its parent's memory, and must not change the record. */
static bool is_main_thread(void)
{
	int32_t pid = owner.restarts == gck_state.restarts ? owner.pid : gck_state.rpid;

	return gck_raw(SYS_gettid) == pid && gck_raw(SYS_getpid) == pid;
}

GCK_EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list ap;
	long r;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	r = gck_raw(SYS_prctl, option, a[0], a[1], a[2], a[3]);
	if (r == 0 && option == PR_SET_PDEATHSIG && is_main_thread())
		record((uint32_t)a[0]);
	return gck_result(r);
}
