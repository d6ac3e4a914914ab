/* SPDX-License-Identifier: Apache-2.0
 * The list of the copy's descriptors: entry fd is fd or -1. The list ends at the highest descriptor
 * so far, so that pages of the table behind it stay unused.
 *
 * The second part has libc's functions that make and end descriptors. Those that may wait for
 * another process (accept, a FIFO's other end) are outside the gate, and the list is changed after
 * them. A capture between the two finds a descriptor that is not listed, and is refused. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shim/namespace/root/lock.h"

/* ---- the list ------------------------------------------------------------------------------- */

#define MAX_FDS (1 << 20) /* the kernel's default limit */

static int32_t listed[MAX_FDS];
static int32_t used;
static struct gck_ns_lock lock;

void gck_ns_fds_start(void)
{
	gck_ns_owned()->fds = (uintptr_t)listed;
	__atomic_store_n(&gck_ns_owned()->nfds, used, __ATOMIC_RELEASE);
}

void gck_ns_fds_lock(void)
{
	gck_ns_lock(&lock);
}

void gck_ns_fds_unlock(void)
{
	gck_ns_unlock(&lock);
}

int gck_ns_fd_made(int fd)
{
	if (fd < 0)
		return fd;
	if (fd >= MAX_FDS) {
		gck_raw(SYS_close, fd);
		errno = EMFILE;
		return -1;
	}
	gck_ns_lock(&lock);
	for (; used <= fd; used++)
		listed[used] = -1;
	__atomic_store_n(&listed[fd], fd, __ATOMIC_RELEASE);
	gck_ns_fds_start();
	gck_ns_unlock(&lock);
	return fd;
}

void gck_ns_fd_ends(int fd)
{
	if (fd >= 0 && fd < __atomic_load_n(&used, __ATOMIC_ACQUIRE))
		__atomic_store_n(&listed[fd], -1, __ATOMIC_RELEASE);
}

void gck_ns_fds_end(unsigned int first, unsigned int last)
{
	unsigned int end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	for (unsigned int fd = first; fd < end && fd <= last; fd++)
		gck_ns_fd_ends(fd);
}

/* ---- libc's functions
 * -------------------------------------------------------------------------- */

/* A call that cannot wait: MADE(SYS_x, arguments). */
#define MADE(...)                                                            \
	({                                                                   \
		long fd_;                                                    \
		gck_ns_enter();                                              \
		fd_ = gck_ns_result(gck_raw(__VA_ARGS__));                   \
		fd_ = gck_ns_fd_made(fd_);                                   \
		gck_ns_leave();                                              \
		(int)fd_;                                                    \
	})

/* ---- files ---------------------------------------------------------------------------------- */

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	return gck_ns_fd_made(gck_ns_result(gck_raw(SYS_openat, dir, path, flags, mode)));
}

#define MODE(flags)                                                          \
	({                                                                   \
		mode_t mode_ = 0;                                            \
		va_list ap_;                                                 \
		if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) {   \
			va_start(ap_, flags);                                \
			mode_ = va_arg(ap_, mode_t);                         \
			va_end(ap_);                                         \
		}                                                            \
		mode_;                                                       \
	})

GCK_EXPORT int open(const char *path, int flags, ...)
{
	return open_at(AT_FDCWD, path, flags, MODE(flags));
}

GCK_EXPORT int open64(const char *path, int flags, ...)
{
	return open_at(AT_FDCWD, path, flags, MODE(flags));
}

GCK_EXPORT int openat(int dir, const char *path, int flags, ...)
{
	return open_at(dir, path, flags, MODE(flags));
}

GCK_EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	return open_at(dir, path, flags, MODE(flags));
}

/* Called by fortified programs when no mode is given. */
GCK_EXPORT int __open_2(const char *path, int flags);
GCK_EXPORT int __open64_2(const char *path, int flags);
GCK_EXPORT int __openat_2(int dir, const char *path, int flags);
GCK_EXPORT int __openat64_2(int dir, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __openat_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

GCK_EXPORT int creat(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

GCK_EXPORT int creat64(const char *path, mode_t mode)
{
	return creat(path, mode);
}

/* ---- descriptors without a file name -------------------------------------------------------- */

GCK_EXPORT int memfd_create(const char *name, unsigned int flags)
{
	return MADE(SYS_memfd_create, name, flags);
}

GCK_EXPORT int epoll_create(int size)
{
	return MADE(SYS_epoll_create, size);
}

GCK_EXPORT int epoll_create1(int flags)
{
	return MADE(SYS_epoll_create1, flags);
}

GCK_EXPORT int eventfd(unsigned int value, int flags)
{
	return MADE(SYS_eventfd2, value, flags);
}

GCK_EXPORT int timerfd_create(clockid_t clock, int flags)
{
	return MADE(SYS_timerfd_create, clock, flags);
}

GCK_EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
	return MADE(SYS_signalfd4, fd, set, sizeof(uint64_t), flags);
}

GCK_EXPORT int inotify_init(void)
{
	return MADE(SYS_inotify_init1, 0);
}

GCK_EXPORT int inotify_init1(int flags)
{
	return MADE(SYS_inotify_init1, flags);
}

GCK_EXPORT int pidfd_open(pid_t pid, unsigned int flags)
{
	return MADE(SYS_pidfd_open, pid, flags);
}

static int list_pair(int fds[2], long r)
{
	if (gck_ns_result(r) < 0)
		return -1;
	if (gck_ns_fd_made(fds[0]) >= 0 && gck_ns_fd_made(fds[1]) >= 0)
		return 0;
	gck_ns_fd_ends(fds[0]);
	gck_raw(SYS_close, fds[0]);
	return -1;
}

GCK_EXPORT int pipe2(int fds[2], int flags)
{
	int r;

	gck_ns_enter();
	r = list_pair(fds, gck_raw(SYS_pipe2, fds, flags));
	gck_ns_leave();
	return r;
}

GCK_EXPORT int pipe(int fds[2])
{
	return pipe2(fds, 0);
}

/* ---- sockets -------------------------------------------------------------------------------- */

GCK_EXPORT int socket(int domain, int type, int protocol)
{
	return MADE(SYS_socket, domain, type, protocol);
}

GCK_EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int r;

	gck_ns_enter();
	r = list_pair(fds, gck_raw(SYS_socketpair, domain, type, protocol, fds));
	gck_ns_leave();
	return r;
}

GCK_EXPORT int accept(int fd, __SOCKADDR_ARG address, socklen_t *length)
{
	return gck_ns_fd_made(gck_ns_result(gck_raw(SYS_accept, fd, address.__sockaddr__, length)));
}

GCK_EXPORT int accept4(int fd, __SOCKADDR_ARG address, socklen_t *length, int flags)
{
	return gck_ns_fd_made(
		gck_ns_result(gck_raw(SYS_accept4, fd, address.__sockaddr__, length, flags)));
}

GCK_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = gck_ns_result(gck_raw(SYS_recvmsg, fd, m, flags));
	int got;

	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof got) <= c->cmsg_len; i++) {
			__builtin_memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
			gck_ns_fd_made(got);
		}
	}
	return n;
}

/* ---- dup and close -------------------------------------------------------------------------- */

GCK_EXPORT int dup(int fd)
{
	return MADE(SYS_dup, fd);
}

GCK_EXPORT int dup2(int fd, int to)
{
	return MADE(SYS_dup2, fd, to);
}

GCK_EXPORT int dup3(int fd, int to, int flags)
{
	return MADE(SYS_dup3, fd, to, flags);
}

/* Other commands go to libc, which asks for F_GETOWN's result, a number that may be negative, by
 * F_GETOWN_EX. */
static int control(int fd, int command, void *arg)
{
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return MADE(SYS_fcntl, fd, command, arg);
	return GCK_NS_NEXT(fcntl64)(fd, command, arg);
}

#define ARGUMENT(last)                                                       \
	({                                                                   \
		va_list ap_;                                                 \
		void *arg_;                                                  \
		va_start(ap_, last);                                         \
		arg_ = va_arg(ap_, void *);                                  \
		va_end(ap_);                                                 \
		arg_;                                                        \
	})

GCK_EXPORT int fcntl(int fd, int command, ...)
{
	return control(fd, command, ARGUMENT(command));
}

GCK_EXPORT int fcntl64(int fd, int command, ...)
{
	return control(fd, command, ARGUMENT(command));
}

/* Takes it out of the list first, because another thread of the program may get the number at
 * once. */
GCK_EXPORT int close(int fd)
{
	long r;

	gck_ns_enter();
	gck_ns_fd_ends(fd);
	r = gck_raw(SYS_close, fd);
	gck_ns_leave();
	return gck_ns_result(r);
}

GCK_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	long r;

	gck_ns_enter();
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		gck_ns_fds_end(first, last);
	r = gck_raw(SYS_close_range, first, last, flags);
	gck_ns_leave();
	return gck_ns_result(r);
}

GCK_EXPORT void closefrom(int first)
{
	close_range(first < 0 ? 0 : first, ~0u, 0);
}
