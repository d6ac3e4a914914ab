/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/proc/trace.h"

#include <sys/ptrace.h>

#ifdef GCK_FAULTS
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "shim/link.h"
#include "shim/process/proc/procfs.h"

#define TICK_NS 10000000 /* of times in /proc/PID/stat */

/* The file that holds whom a process allows. False: the fault is not on. */
static bool name_of(pid_t pid, char path[PATH_MAX])
{
	const char *dir = getenv("GPUCKPT_FAULT");
	char space[64] = "";

	if (!dir || *dir != '/')
		return false;
	snprintf(path, PATH_MAX, "%s/on.YAMA", dir);
	if (access(path, F_OK))
		return false;
	if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
		return false;
	snprintf(path, PATH_MAX, "%s/tracer.%s.%d", dir, space, (int)pid);
	return true;
}

/* A line of /proc/PID/status; 0: there is none. */
static pid_t field(pid_t pid, const char *key)
{
	int proc = gck_proc_open(pid, NULL);
	char *text = proc < 0 ? NULL : gck_proc_read(proc, "status", NULL, NULL);
	pid_t value = text ? (pid_t)gck_proc_number(text, key, 10, 0) : 0;

	free(text);
	if (proc >= 0)
		close(proc);
	return value;
}

static bool is_below(pid_t pid, pid_t ancestor)
{
	while (pid > 0 && pid != ancestor)
		pid = field(pid, "PPid:");
	return pid == ancestor;
}

/* The file is not of an earlier process of that number. */
static bool is_of_process(const struct stat *st, pid_t pid)
{
	uint64_t v[GCK_STAT_FIELDS];
	struct timespec since;
	int proc = gck_proc_open(pid, NULL);
	bool known = proc >= 0 && !gck_proc_stat(proc, &(char){0}, v, NULL);

	if (proc >= 0)
		close(proc);
	clock_gettime(CLOCK_BOOTTIME, &since);
	return known && st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec >=
			gck_realtime() - (since.tv_sec * 1000000000ll + since.tv_nsec) +
			((int64_t)v[22] - 1) * TICK_NS;
}

/* 0: nobody. */
static int32_t allowed(pid_t pid, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int32_t tracer = 0;
	struct stat st;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) || !is_of_process(&st, pid) ||
	    read(fd, &tracer, sizeof tracer) != sizeof tracer)
		tracer = 0;
	close(fd);
	return tracer;
}

bool gck_trace_permitted(pid_t tid)
{
	char path[PATH_MAX];
	pid_t pid = field(tid, "Tgid:"), me = getpid();
	int32_t tracer;

	if (!pid || !name_of(pid, path) || field(pid, "TracerPid:") == me || is_below(pid, me))
		return true;
	tracer = allowed(pid, path);
	if (tracer == GCK_TRACER_ANY || (tracer && is_below(me, tracer)))
		return true;
	errno = EPERM;
	return false;
}

void gck_trace_allow(pid_t pid, int32_t tracer)
{
	char path[PATH_MAX];
	int fd = name_of(pid, path) ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
				    : -1;

	if (fd < 0)
		return;
	if (write(fd, &tracer, sizeof tracer) != sizeof tracer)
		unlink(path);
	close(fd);
}
#endif

int gck_trace_seize(pid_t tid, unsigned long options)
{
	return gck_trace_permitted(tid) ? (int)ptrace(PTRACE_SEIZE, tid, 0, options) : -1;
}
