/* SPDX-License-Identifier: Apache-2.0
 * Scanning the process as a whole. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/rank/scan.h"

static void check_rights(struct gck_scan *s, const char *status)
{
	const char *uid = gck_proc_field(status, "Uid:");
	uint64_t tracer = gck_proc_number(status, "TracerPid:", 10, 0);
	unsigned real = 0, effective = 0, saved = 0;

	if (gck_proc_number(status, "Seccomp:", 10, 0))
		gck_find(s->f, true, "process", "run it without", "it has a seccomp filter");
	if (tracer && tracer != (uint64_t)getpid())
		gck_find(s->f, true, "process", "end the debugger", "it is traced by process %llu",
			 (unsigned long long)tracer);
	if (uid && (sscanf(uid, "%u %u %u", &real, &effective, &saved) != 3 ||
		    real != effective || real != saved))
		gck_find(s->f, true, "process", "run it without a set-user-id program",
			 "its user ids differ: %u %u %u", real, effective, saved);
	if (real && gck_proc_number(status, "CapPrm:", 16, 0))
		gck_find(s->f, true, "process", "run it without", "it has capabilities");
}

static void check_namespaces(struct gck_scan *s)
{
	static const char *const names[] = {"mnt", "user", "pid", "net", "ipc", "uts"};
	struct stat theirs, ours;
	char path[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		if (fstatat(s->t->proc, path + strlen("/proc/self/"), &theirs, 0) == 0 &&
		    stat(path, &ours) == 0 && theirs.st_ino != ours.st_ino)
			gck_find(s->f, true, "process", "start gpuckpt's step inside it",
				 "it has its own %s namespace", names[i]);
	}
	if (fstatat(s->t->proc, "root", &theirs, 0) == 0 && stat("/", &ours) == 0 &&
	    (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev))
		gck_find(s->f, true, "process", "start gpuckpt's step inside it",
			 "it has its own root directory (chroot)");
}

static int check_children(struct gck_scan *s)
{
	int *tids;
	size_t n;

	if (gck_proc_list(s->t->proc, "task", &tids, &n, s->err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		char file[48], *text;

		snprintf(file, sizeof(file), "task/%d/children", tids[i]);
		text = tids[i] == s->t->shim->helper_tid
			       ? NULL : gck_proc_read(s->t->proc, file, NULL, NULL);
		if (text && *text)
			gck_find(s->f, true, "process", "wait until it has ended",
				 "it has a child process: %.*s", (int)strcspn(text, " \n"), text);
		free(text);
	}
	free(tids);
	return 0;
}

static int read_limits(struct gck_scan *s)
{
	for (int i = 0; i < RLIMIT_NLIMITS; i++) {
		struct rlimit limit;

		if (prlimit(s->t->pid, (enum __rlimit_resource)i, NULL, &limit))
			return gck_fail(s->err, errno, "cannot read limit %d of process %d: %s", i,
					(int)s->t->pid, strerror(errno));
		s->img->limits[i][0] = limit.rlim_cur;
		s->img->limits[i][1] = limit.rlim_max;
	}
	return 0;
}

static int read_memory_layout(struct gck_scan *s)
{
	struct gck_image *img = s->img;
	uint64_t v[GCK_STAT_FIELDS];
	char state;
	size_t n = 0;

	if (gck_proc_stat(s->t->proc, &state, v, s->err))
		return -1;
	if (gck_proc_ended(s->t->proc))
		return gck_fail(s->err, ESRCH, "process %d has ended", (int)s->t->pid);
	if (state == 'T')
		gck_find(s->f, true, "process", "continue it with SIGCONT",
			 "it is stopped by a signal (job control)");
	img->start_code = v[26];
	img->end_code = v[27];
	img->start_stack = v[28];
	img->start_data = v[45];
	img->end_data = v[46];
	img->start_brk = v[47];
	img->arg_start = v[48];
	img->arg_end = v[49];
	img->env_start = v[50];
	img->env_end = v[51];
	img->auxv = (unsigned char *)gck_proc_read(s->t->proc, "auxv", &n, s->err);
	img->auxv_size = n;
	return img->auxv ? 0 : -1;
}

static int read_directory(struct gck_scan *s)
{
	struct stat there;

	s->img->cwd = gck_proc_link(s->t->proc, "cwd", s->err);
	if (!s->img->cwd)
		return -1;
	if (gck_path_deleted(s->img->cwd) || s->img->cwd[0] != '/' ||
	    stat(s->img->cwd, &there))
		gck_find(s->f, true, "process", "change to a directory that exists",
			 "its working directory is gone: %s", s->img->cwd);
	return 0;
}

/* One block of /proc/PID/timers. */
static void read_timer(struct gck_scan *s, const char *text, struct gck_posix_timer *x)
{
	const char *signal = gck_proc_field(text, "signal:");
	const char *notify = gck_proc_field(text, "notify:");
	const char *tid = notify ? strstr(notify, "tid.") : NULL;
	int64_t clock = (int64_t)gck_proc_number(text, "ClockID:", 10, 0);
	char object[32];

	x->id = (int32_t)strtol(text, NULL, 10);
	snprintf(object, sizeof(object), "timer %d", x->id);
	if (signal)
		sscanf(signal, "%d/%lx", &x->signo, &x->sigval);
	x->notify = notify && !strncmp(notify, "signal", 6) ? SIGEV_SIGNAL : SIGEV_NONE;
	if (notify && !strncmp(notify, "thread", 6))
		x->notify = SIGEV_THREAD;
	if (tid && tid < notify + strcspn(notify, "\n")) {
		x->notify |= SIGEV_THREAD_ID;
		x->vtid = gck_target_vtid(s->t, (int32_t)strtol(tid + 4, NULL, 10));
	}
	x->clock = (int32_t)clock;
	if (clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
		gck_find(s->f, true, object, "use CLOCK_MONOTONIC", "it runs on CPU time");
}

static int read_timers(struct gck_scan *s)
{
	char *text = gck_proc_read(s->t->proc, "timers", NULL, NULL);

	if (!text) {
		gck_find(s->f, false, "timers", "use a kernel with CONFIG_CHECKPOINT_RESTORE",
			 "this kernel does not list POSIX timers: they are not carried");
		return 0;
	}
	for (char *at = text, *next; at && !strncmp(at, "ID: ", 4); at = next) {
		struct gck_posix_timer *x;

		x = gck_grow(&s->img->timers, &s->img->ntimers, sizeof(*x), s->err);
		if (!x) {
			free(text);
			return -1;
		}
		next = strstr(at, "\nID: ");
		if (next)
			*next++ = '\0';
		read_timer(s, at + 4, x);
	}
	free(text);
	return 0;
}

int gck_scan_process(struct gck_scan *s)
{
	char *status = gck_proc_read(s->t->proc, "status", NULL, s->err), *text;

	if (!status)
		return -1;
	s->img->umask = (uint32_t)gck_proc_number(status, "Umask:", 8, 022);
	check_rights(s, status);
	free(status);
	check_namespaces(s);
	if (s->t->shim->overflow)
		gck_find(s->f, true, "threads", "use fewer threads", "there were more than %d "
			 "threads at a time", GCK_SHIM_MAX_TIDS);
	s->img->vpid = s->t->shim->vpid;
	s->img->restarts = s->t->shim->restarts;
	s->img->shim_state = s->t->address;
	text = gck_proc_read(s->t->proc, "personality", NULL, NULL);
	s->img->personality = text ? (uint32_t)strtoul(text, NULL, 16) : 0;
	free(text);
	if (check_children(s) || read_limits(s) || read_memory_layout(s) || read_directory(s))
		return -1;
	return read_timers(s);
}

/* /proc/cpuinfo can be long and slow; the flags of the first CPU are at its start. */
static char *read_cpu_flags(struct gck_error *err)
{
	char text[16384], *copy = NULL;
	int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *flags;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	flags = gck_proc_field(text, "flags");
	if (flags) {
		flags += strspn(flags, " \t:");
		copy = strndup(flags, strcspn(flags, "\n"));
	}
	if (!copy)
		gck_fail(err, EPROTO, "/proc/cpuinfo has no flags");
	return copy;
}

int gck_scan_node(struct gck_scan *s)
{
	size_t n;

	s->img->exe = gck_proc_link(s->t->proc, "exe", s->err);
	if (!s->img->exe)
		return -1;
	n = strlen(s->img->exe);
	if (gck_path_deleted(s->img->exe)) {
		s->img->exe[n - strlen(" (deleted)")] = '\0';
		gck_find(s->f, false, s->img->exe, "keep the program while it runs",
			 "the program's file was replaced or removed");
	}
	s->img->cpu_flags = read_cpu_flags(s->err);
	return s->img->cpu_flags ? 0 : -1;
}
