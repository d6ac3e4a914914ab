/* SPDX-License-Identifier: Apache-2.0
 * A task between its fork and its exec. */
#include "config.h"

#include "spank/task.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define NS 1000000000ll

static int64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

void gck_clock_measure(struct gck_clock *c)
{
	c->monotonic = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);
	c->boottime = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
}

/* Format an offset for the kernel: seconds, and nanoseconds that are not negative. */
static int format_offset(char *text, size_t size, const char *clock, int64_t offset)
{
	int64_t ns = (offset % NS + NS) % NS;

	return snprintf(text, size, "%s %lld %lld\n", clock, (long long)((offset - ns) / NS),
			(long long)ns);
}

static int write_offsets(const struct gck_clock *c)
{
	char text[200];
	int n = format_offset(text, sizeof text, "monotonic", c->monotonic);
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	ssize_t done;

	n += format_offset(text + n, sizeof text - (size_t)n, "boottime", c->boottime);
	if (fd < 0)
		return -1;
	done = write(fd, text, (size_t)n);
	close(fd);
	return done == n ? 0 : -1;
}

/* unshare() affects children only, and not every kernel moves the task itself at its exec. */
static int join(void)
{
	int fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : setns(fd, CLONE_NEWTIME);

	if (fd >= 0)
		close(fd);
	return rc;
}

int gck_clock_enter(const struct gck_clock *c, struct gck_error *err)
{
	if (unshare(CLONE_NEWTIME) || write_offsets(c) || join())
		return gck_fail(err, errno, "no time namespace for the step: %s; its checkpoints "
				"can be restored on this node, but not where CLOCK_MONOTONIC is "
				"behind; the kernel needs CONFIG_TIME_NS, and slurmd CAP_SYS_ADMIN "
				"(in a container, too)", strerror(errno));
	return 0;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static void close_on_exec_if_listening(int fd)
{
	int listens = 0;
	socklen_t n = sizeof listens;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void gck_task_close_listeners(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (atoi(e->d_name) > 2)
			close_on_exec_if_listening(atoi(e->d_name));
	closedir(d);
}
