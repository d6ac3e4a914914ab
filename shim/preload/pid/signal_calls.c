/* SPDX-License-Identifier: Apache-2.0
 * Signals' senders: libc's functions that wait for a signal, which stay cancellation points, and
 * handlers that are told who sent theirs. */
#include "config.h"

#include <signal.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"
#include "shim/sender.h"

/* What is received cannot be received again: as of messages. */
void gck_signal_received(siginfo_t *info)
{
	if (gck_has_sender(info))
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

/* ---- handlers -------------------------------------------------------------------------------- */

typedef void handler(int sig, siginfo_t *info, void *context);

static uint64_t load(int sig)
{
	return __atomic_load_n(&gck_state.handlers[sig], __ATOMIC_ACQUIRE);
}

static void store(int sig, uint64_t h)
{
	__atomic_store_n(&gck_state.handlers[sig], h, __ATOMIC_RELEASE);
}

/* The kernel calls it. The compiler makes the last call a jump: no frame of ours is there. */
static void tell(int sig, siginfo_t *info, void *context)
{
	gck_signal_received(info);
	((handler *)load(sig))(sig, info, context);
}

void gck_handlers_begin(void)
{
	gck_state.handler_entry = (uint64_t)tell;
}

static bool is_told(const struct sigaction *act)
{
	return act->sa_flags & SA_SIGINFO && act->sa_handler != SIG_DFL &&
	       act->sa_handler != SIG_IGN && act->sa_sigaction != tell;
}

/* A child by vfork has its parent's table, and its own actions. */
GCK_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	bool ours = !gck_is_original() && act && sig > 0 && sig <= GCK_SHIM_SIGNALS &&
		    is_told(act) && gck_is_rank();
	uint64_t before = ours ? load(sig) : 0;
	struct sigaction told;
	int result;

	if (ours) {
		told = *act;
		store(sig, (uint64_t)told.sa_sigaction);
		told.sa_sigaction = tell;
	}
	result = GCK_NEXT(sigaction, int (*)(int, const struct sigaction *, struct sigaction *))(
		sig, ours ? &told : act, old);
	if (ours && result)
		store(sig, before);
	/* A restart may have come meanwhile. */
	if (!result && old && old->sa_sigaction == tell)
		old->sa_sigaction = (handler *)(ours ? before : load(sig));
	return result;
}

typedef sighandler_t setter(int sig, sighandler_t h);

/* They set another, which is told nothing. */
#define GCK_SETS_HANDLER(name)                                                       \
	GCK_EXPORT sighandler_t name(int sig, sighandler_t h)                        \
	{                                                                            \
		return of_program(sig, GCK_NEXT(name, setter *)(sig, h));            \
	}

static sighandler_t of_program(int sig, sighandler_t was)
{
	return (uint64_t)was == gck_state.handler_entry ? (sighandler_t)load(sig) : was;
}

setter bsd_signal; /* glibc has it, but no header */

GCK_SETS_HANDLER(signal)
GCK_SETS_HANDLER(bsd_signal)
GCK_SETS_HANDLER(ssignal)
GCK_SETS_HANDLER(sysv_signal)
GCK_SETS_HANDLER(__sysv_signal)
GCK_SETS_HANDLER(sigset)
