/* SPDX-License-Identifier: Apache-2.0
 * System calls that the freeze interrupted. In the rank the kernel settles them when the thread is
 * let go; in the image they are settled here, by the same rules (signal(7)): start again, unless a
 * signal with a handler comes first and the call is one that then returns EINTR. */
#include <string.h>
#include <sys/syscall.h>

#include "shim/process/threads/threads.h"

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

static int signal_of(const struct gck_pending *p)
{
	int signal;

	memcpy(&signal, p->info, sizeof(signal));
	return signal;
}

/* A pending signal that would run a handler at once; of the kernel's choice, the lowest. */
static int first_handled(const struct gck_image *img, const struct gck_thread *x,
			 const struct gck_pending *v, size_t n, bool taken)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int s = signal_of(&v[i]);

		if (s < 1 || s > 64 || img->actions[s].handler <= 1)
			continue;
		if ((x->sigmask >> (s - 1) & 1) && !(taken && i == 0))
			continue;
		if (!first || s < first)
			first = s;
	}
	return first;
}

static bool restarted(const struct gck_image *img, int64_t result, int signal)
{
	if (!signal || result == -ERESTARTNOINTR)
		return true;
	return result == -ERESTARTSYS && (img->actions[signal].flags & SA_RESTART);
}

/* Where the kernel alone knows which call it is (restart_syscall), a restored thread has nothing to
 * go on with: the image has the call itself, or EINTR if that cannot be found out. */
static bool name_call(struct gck_thread *x, pid_t pid)
{
	long nr;

	if (x->regs.orig_rax != SYS_restart_syscall)
		return true;
	nr = gck_restarted_call(pid, &x->regs);
	if (nr >= 0)
		x->regs.orig_rax = (uint64_t)nr;
	return nr >= 0;
}

static void settle(const struct gck_image *img, struct gck_thread *x, int signal, pid_t pid)
{
	int64_t result = (int64_t)x->regs.rax;

	if ((int64_t)x->regs.orig_rax < 0)
		return;
	if (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
	    result == -ERESTART_RESTARTBLOCK) {
		if (restarted(img, result, signal) && name_call(x, pid)) {
			x->regs.rax = x->regs.orig_rax;
			x->regs.rip -= 2;
		} else {
			x->regs.rax = (uint64_t)-EINTR;
		}
	}
	x->regs.orig_rax = (uint64_t)-1;
}

/* Was the thread about to get its first pending signal? Then its mask (which may be that from
 * before a sigsuspend) does not matter. */
static bool taken(const struct gck_held *h, const struct gck_thread *x)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].tid == x->rtid)
			return h->v[i].signal != 0;
	return false;
}

void gck_threads_settle(struct gck_image *img, const struct gck_held *h,
			const struct gck_target *t)
{
	bool given = false; /* the process's signals go to the first thread that takes them */

	for (size_t i = 0; i < img->nthreads; i++) {
		struct gck_thread *x = &img->threads[i];
		int signal = first_handled(img, x, x->pending, x->npending, taken(h, x));

		if (!signal && !given) {
			signal = first_handled(img, x, img->pending, img->npending, false);
			given = signal != 0;
		}
		settle(img, x, signal, t->pid);
	}
}
