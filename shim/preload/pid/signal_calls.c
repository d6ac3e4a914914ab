/* SPDX-License-Identifier: Apache-2.0
 * libc's functions that wait for a signal, interposed for the sender's number. They stay
 * cancellation points. */
#include "config.h"

#include <signal.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* Others have something else in its place. */
static bool has_sender(const siginfo_t *info)
{
	return info->si_code == SI_USER || info->si_code == SI_QUEUE ||
	       info->si_code == SI_TKILL ||
	       (info->si_signo == SIGCHLD && info->si_code >= CLD_EXITED &&
		info->si_code <= CLD_CONTINUED);
}

/* What is received cannot be received again: as of messages. */
void gck_signal_received(siginfo_t *info)
{
	if (has_sender(info))
		info->si_pid = gck_id_to_program(info->si_pid);
}

GCK_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	int sig = GCK_NEXT(sigtimedwait, int (*)(const sigset_t *, siginfo_t *,
						 const struct timespec *))(set, info, timeout);

	if (sig > 0 && info && !gck_is_original())
		gck_signal_received(info);
	return sig;
}

GCK_EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return sigtimedwait(set, info, NULL);
}
