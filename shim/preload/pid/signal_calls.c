/* SPDX-License-Identifier: Apache-2.0
 * Signals' senders: libc's functions that wait for a signal or read it from a signalfd, which stay
 * cancellation points, and handlers that are told who sent theirs. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <unistd.h>

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

/* ---- signalfds ------------------------------------------------------------------------------- */

static bool is_signalfd(int fd)
{
	static const char link[] = "anon_inode:[signalfd]";
	char target[sizeof link];

	return gck_read_fd_link(fd, target, sizeof target) == sizeof link - 1 &&
	       !memcmp(target, link, sizeof link - 1);
}

/* Copy the signal at this offset of what was read, or copy it back there. */
static void copy_signal(const struct iovec *v, size_t at, struct signalfd_siginfo *x, bool back)
{
	char *own = (char *)x;
	size_t left = sizeof *x;

	for (; left; v++) {
		size_t n = v->iov_len > at ? v->iov_len - at : 0;
		char *its = (char *)v->iov_base + at;

		n = n < left ? n : left;
		memcpy(back ? its : own, back ? own : its, n);
		at -= n ? at : v->iov_len;
		own += n;
		left -= n;
	}
}

/* Most reads are of other files, whose bytes are no such signal at first sight. */
static void signals_read(int fd, const struct iovec *v, size_t size)
{
	bool known = false;

	for (size_t at = 0; at < size; at += sizeof(struct signalfd_siginfo)) {
		struct signalfd_siginfo x;
		siginfo_t info;
		int32_t sender;

		copy_signal(v, at, &x, false);
		if (!x.ssi_signo || x.ssi_signo > GCK_SHIM_SIGNALS)
			return;
		info = (siginfo_t){ .si_signo = (int)x.ssi_signo, .si_code = x.ssi_code };
		sender = gck_id_to_program((int32_t)x.ssi_pid);
		if (!gck_has_sender(&info) || sender == (int32_t)x.ssi_pid)
			continue;
		if (!known && !is_signalfd(fd))
			return;
		known = true;
		x.ssi_pid = (uint32_t)sender;
		copy_signal(v, at, &x, true);
	}
}

long gck_was_read(int fd, const struct iovec *v, long n)
{
	if (n > 0 && (size_t)n % sizeof(struct signalfd_siginfo) == 0 && !gck_is_original())
		signals_read(fd, v, (size_t)n);
	return n;
}

static ssize_t was_read(int fd, void *to, ssize_t n)
{
	return gck_was_read(fd, &(struct iovec){ to, n > 0 ? (size_t)n : 0 }, n);
}

/* Under another name in C: its attributes forbid to look at what the kernel has written. */
ssize_t gck_read(int fd, void *to, size_t size) __asm__("read");
GCK_EXPORT ssize_t gck_read(int fd, void *to, size_t size)
{
	return was_read(fd, to, GCK_NEXT(read, ssize_t (*)(int, void *, size_t))(fd, to, size));
}

/* That of a program that was compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t space);
GCK_EXPORT ssize_t __read_chk(int fd, void *to, size_t size, size_t space)
{
	return was_read(fd, to, GCK_NEXT(__read_chk, ssize_t (*)(int, void *, size_t, size_t))(
					fd, to, size, space));
}

/* At no offset it is readv; at one there is no signalfd. */
#define PREADV2(name) \
	ssize_t gck_##name(int fd, const struct iovec *v, int n, off_t at, int flags) \
		__asm__(#name); \
	GCK_EXPORT ssize_t gck_##name(int fd, const struct iovec *v, int n, off_t at, int flags) \
	{ \
		return gck_was_read(fd, v, GCK_NEXT(name, ssize_t (*)(int, const struct iovec *, \
								      int, off_t, int))( \
						   fd, v, n, at, flags)); \
	}
PREADV2(preadv2)
PREADV2(preadv64v2)

ssize_t gck_readv(int fd, const struct iovec *v, int n) __asm__("readv");
GCK_EXPORT ssize_t gck_readv(int fd, const struct iovec *v, int n)
{
	return gck_was_read(fd, v, GCK_NEXT(readv, ssize_t (*)(int, const struct iovec *, int))(
					   fd, v, n));
}

/* Whole signals; libc's reads for a stream do not pass by the functions above. */
static size_t was_fread(FILE *f, void *to, size_t size, size_t n)
{
	int before = errno;

	was_read(fileno_unlocked(f), to, (ssize_t)(size * n));
	errno = before;
	return n;
}

typedef size_t stream_reader(void *, size_t, size_t, FILE *);
typedef size_t checked_reader(void *, size_t, size_t, size_t, FILE *);

#define FREAD(name) \
	size_t gck_##name(void *to, size_t size, size_t n, FILE *f) __asm__(#name); \
	GCK_EXPORT size_t gck_##name(void *to, size_t size, size_t n, FILE *f) \
	{ \
		return was_fread(f, to, size, GCK_NEXT(name, stream_reader *)(to, size, n, f)); \
	}
FREAD(fread)
FREAD(fread_unlocked)

#define FREAD_CHK(name) \
	size_t name(void *to, size_t space, size_t size, size_t n, FILE *f); \
	GCK_EXPORT size_t name(void *to, size_t space, size_t size, size_t n, FILE *f) \
	{ \
		return was_fread(f, to, size, \
				 GCK_NEXT(name, checked_reader *)(to, space, size, n, f)); \
	}
FREAD_CHK(__fread_chk)
FREAD_CHK(__fread_unlocked_chk)

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

GCK_EACH void gck_handlers_begin(void)
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
