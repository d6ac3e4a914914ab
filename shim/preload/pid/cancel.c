/* SPDX-License-Identifier: Apache-2.0
 * pthread_cancel in a restored rank. libc marks the thread and signals its cached TID, which to the
 * kernel may be unused or another thread of the rank; glibc 2.36 ends whichever thread gets the
 * signal. So the signal is sent again to the right thread, and a handler before libc's passes it on
 * only to threads whose cancellation was requested. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define MAX_ASKED 256

typedef void handler_fn(int, siginfo_t *, void *);

struct kernel_sigaction {
	handler_fn *handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t asked[MAX_ASKED]; /* threads to be cancelled; 0: free */
static bool asked_more;            /* the table is full: every signal passes */
static handler_fn *libc_handler;

static bool is_asked(pthread_t thread)
{
	for (int i = 0; i < MAX_ASKED; i++) {
		if (__atomic_load_n(&asked[i], __ATOMIC_ACQUIRE) == thread)
			return true;
	}
	return __atomic_load_n(&asked_more, __ATOMIC_ACQUIRE);
}

static void ask(pthread_t thread)
{
	if (is_asked(thread))
		return;
	for (int i = 0; i < MAX_ASKED; i++) {
		pthread_t none = 0;

		if (__atomic_compare_exchange_n(&asked[i], &none, thread, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
	__atomic_store_n(&asked_more, true, __ATOMIC_RELEASE);
}

void gck_cancel_forget(void)
{
	for (int i = 0; i < MAX_ASKED; i++) {
		pthread_t own = pthread_self();

		__atomic_compare_exchange_n(&asked[i], &own, 0, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
	}
}

static void on_cancel(int sig, siginfo_t *info, void *context)
{
	if (is_asked(pthread_self()))
		libc_handler(sig, info, context);
}

static void *wait_for_cancel(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Make libc install its handler, which it does when a thread is cancelled for the first time. */
static void make_libc_install(void)
{
	pthread_t t;

	if (gck_real()->pthread_create(&t, NULL, wait_for_cancel, NULL))
		return;
	gck_real()->pthread_cancel(t);
	pthread_join(t, NULL);
}

static void install(void)
{
	struct kernel_sigaction act;

	gck_raw(SYS_rt_sigaction, GCK_SIGCANCEL, 0, &act, sizeof act.mask);
	if (!act.handler) {
		make_libc_install();
		gck_raw(SYS_rt_sigaction, GCK_SIGCANCEL, 0, &act, sizeof act.mask);
	}
	if (!act.handler || act.handler == on_cancel)
		return;
	libc_handler = act.handler;
	act.handler = on_cancel;
	gck_raw(SYS_rt_sigaction, GCK_SIGCANCEL, &act, 0, sizeof act.mask);
}

/* Whether libc has sent its signal to the wrong TID. It signals only threads that can be cancelled
 * at once; another signal would interrupt the others' system calls. */
static bool was_signalled(int result, int32_t vtid)
{
	return result == ESRCH || gck_raw(SYS_tgkill, gck_state.rpid, vtid, 0) == 0;
}

GCK_EXPORT int pthread_cancel(pthread_t thread)
{
	int32_t vtid;
	int r;

	if (gck_is_original() || !gck_is_rank())
		return gck_real()->pthread_cancel(thread);
	vtid = *gck_tid_of(thread);
	pthread_mutex_lock(&lock);
	install();
	ask(thread);
	pthread_mutex_unlock(&lock);
	r = gck_real()->pthread_cancel(thread);
	if (!gck_kernel_tid(thread) || thread == pthread_self() || !was_signalled(r, vtid))
		return r;
	gck_signal_thread(thread, GCK_SIGCANCEL, NULL);
	return r == ESRCH ? 0 : r;
}
