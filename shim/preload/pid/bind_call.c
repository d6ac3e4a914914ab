/* SPDX-License-Identifier: Apache-2.0
 * The CUDA driver listens at an abstract socket address with the process's PID in it
 * (@cuda-uvmfd-NAMESPACE-PID, and a NUL) as long as it lives. After a restart on another node that
 * PID may be another process's, or another rank's, so the address is made unique. No process
 * connects to it by the old one (driver 580). */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define PREFIX "cuda-uvmfd-"
#define SUFFIX 17 /* a dash and 16 digits */

static bool is_the_drivers(const struct sockaddr_un *a, size_t n)
{
	const size_t head = offsetof(struct sockaddr_un, sun_path) + 1;

	return n > head + strlen(PREFIX) && n + SUFFIX <= sizeof *a && gck_is_memory(a, n) &&
	       a->sun_family == AF_UNIX && !a->sun_path[0] && !((const char *)a)[n - 1] &&
	       !memcmp(a->sun_path + 1, PREFIX, strlen(PREFIX));
}

GCK_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t n)
{
	int (*real)(int, const struct sockaddr *, socklen_t) =
		GCK_NEXT(bind, int (*)(int, const struct sockaddr *, socklen_t));
	struct sockaddr_un own;
	uint64_t random;

	if (!is_the_drivers((const void *)address, n) ||
	    gck_raw(SYS_getrandom, &random, sizeof random, GRND_NONBLOCK) != sizeof random)
		return real(fd, address, n);
	memcpy(&own, address, n);
	snprintf((char *)&own + n - 1, SUFFIX + 1, "-%016llx", (unsigned long long)random);
	return real(fd, (const struct sockaddr *)&own, n + SUFFIX);
}
