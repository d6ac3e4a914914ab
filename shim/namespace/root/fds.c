/* SPDX-License-Identifier: Apache-2.0
 * The list of the copy's descriptors: entry fd is fd or -1. The list ends at the highest descriptor
 * so far, so that pages of the table behind it stay unused. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include "shim/namespace/root/lock.h"

#define MAX_FDS (1 << 20) /* the kernel's default limit */

static int32_t fds[MAX_FDS];
static int32_t used;
static struct gck_ns_lock lock;

void gck_ns_fds_start(void)
{
	gck_ns_owned()->fds = (uintptr_t)fds;
	__atomic_store_n(&gck_ns_owned()->nfds, used, __ATOMIC_RELEASE);
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
		fds[used] = -1;
	__atomic_store_n(&fds[fd], fd, __ATOMIC_RELEASE);
	gck_ns_fds_start();
	gck_ns_unlock(&lock);
	return fd;
}

void gck_ns_fd_ends(int fd)
{
	if (fd >= 0 && fd < __atomic_load_n(&used, __ATOMIC_ACQUIRE))
		__atomic_store_n(&fds[fd], -1, __ATOMIC_RELEASE);
}

void gck_ns_fds_end(unsigned int first, unsigned int last)
{
	unsigned int end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	for (unsigned int fd = first; fd < end && fd <= last; fd++)
		gck_ns_fd_ends(fd);
}
