/* SPDX-License-Identifier: Apache-2.0
 * The rank's lease: a timer of the kernel that stops the process unless the agent renews it. It
 * fires also while nothing runs on a node that is frozen, so that no instruction of the program
 * runs when the node does again, before its agent has found out whether the job still runs here
 * (coordinator/agent/ranks/lease.h). Images leave the timer out (shim/process/objects/timers.c). */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <signal.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

#define NONE (-1)

static int timer = NONE; /* the kernel's number */

/* Its value tells it from the program's timers. */
static const struct sigevent stop = {
	.sigev_value.sival_ptr = &gck_state,
	.sigev_signo = SIGSTOP,
	.sigev_notify = SIGEV_SIGNAL,
};

void gck_lease_set(uint32_t ms)
{
	struct itimerspec t;

	if (!ms && timer != NONE) {
		gck_raw(SYS_timer_delete, timer);
		timer = NONE;
	}
	if (!ms || (timer == NONE && gck_raw(SYS_timer_create, CLOCK_BOOTTIME, &stop, &timer) < 0))
		return;
	t.it_interval.tv_sec = 0;
	t.it_interval.tv_nsec = 0;
	t.it_value.tv_sec = ms / 1000;
	t.it_value.tv_nsec = ms % 1000 * 1000000l;
	gck_raw(SYS_timer_settime, timer, 0, &t, 0);
}

void gck_lease_forget(void)
{
	timer = NONE;
}
