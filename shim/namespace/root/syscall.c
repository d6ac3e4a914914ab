/* SPDX-License-Identifier: Apache-2.0
 * syscall(), which libraries use for system calls that libc lacks, or to avoid other libraries'
 * hooks. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

static bool makes_fd(long nr)
{
	switch (nr) {
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
	case SYS_socket:
	case SYS_accept:
	case SYS_accept4:
	case SYS_dup:
	case SYS_dup2:
	case SYS_dup3:
	case SYS_epoll_create:
	case SYS_epoll_create1:
	case SYS_eventfd:
	case SYS_eventfd2:
	case SYS_timerfd_create:
	case SYS_signalfd:
	case SYS_signalfd4:
	case SYS_inotify_init:
	case SYS_inotify_init1:
	case SYS_memfd_create:
	case SYS_memfd_secret:
	case SYS_pidfd_open:
	case SYS_pidfd_getfd:
	case SYS_perf_event_open:
	case SYS_userfaultfd:
	case SYS_io_uring_setup:
	case SYS_fanotify_init:
	case SYS_open_by_handle_at:
		return true;
	default:
		return false;
	}
}

GCK_EXPORT long syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	switch (nr) {
	case SYS_mmap:
		return (long)mmap((void *)a[0], a[1], a[2], a[3], a[4], a[5]);
	case SYS_munmap:
		return munmap((void *)a[0], a[1]);
	case SYS_mremap:
		return (long)mremap((void *)a[0], a[1], a[2], a[3], (void *)a[4]);
	case SYS_shmat:
		return (long)shmat(a[0], (void *)a[1], a[2]);
	case SYS_shmdt:
		return shmdt((void *)a[0]);
	case SYS_close:
		return close(a[0]);
	}
	a[0] = gck_ns_result(gck_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
	return makes_fd(nr) ? gck_ns_fd_made(a[0]) : a[0];
}
