/* SPDX-License-Identifier: Apache-2.0
 * A stand-in's descriptors in the program's table. */
#define _GNU_SOURCE
#include "shim/inside/descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_FD 1000

int gck_inside_move_away(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

uint64_t gck_inside_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof cookie;

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n) ? 0 : cookie;
}
