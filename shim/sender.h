/* SPDX-License-Identifier: Apache-2.0
 * Who sent a signal. For the preload, and for shim/process. */
#ifndef GCK_SENDER_H
#define GCK_SENDER_H

#include <signal.h>
#include <stdbool.h>

/* Whether si_pid is a process: other signals have something else in its place. */
static inline bool gck_has_sender(const siginfo_t *info)
{
	return info->si_code == SI_USER || info->si_code == SI_QUEUE ||
	       info->si_code == SI_TKILL ||
	       (info->si_signo == SIGCHLD && info->si_code >= CLD_EXITED &&
		info->si_code <= CLD_CONTINUED);
}

#endif
