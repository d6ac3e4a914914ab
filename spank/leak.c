/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/leak.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

static void look_at(int fd)
{
	int listens = 0;
	socklen_t n = sizeof listens;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void gck_leak_close(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (atoi(e->d_name) > 2)
			look_at(atoi(e->d_name));
	closedir(d);
}
