/* SPDX-License-Identifier: Apache-2.0
 * Reading files below /proc/PID. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/program/program.h"
#include "shim/process/proc/procfs.h"

#define PF_EXITING 0x4    /* of the flags in /proc/PID/stat */
#define PF_IO_WORKER 0x10

void gck_proc_open_many(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int gck_proc_open(pid_t pid, struct gck_error *err)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gck_fail(err, errno == ENOENT ? ESRCH : errno,
				"cannot look at process %d: %s", (int)pid,
				errno == ENOENT ? "it has ended" : strerror(errno));
	return fd;
}

/* Read to the end into a growing buffer: files of /proc do not report their size. */
static char *read_all(int fd, size_t *size)
{
	size_t capacity = 16384, used = 0;
	char *text = malloc(capacity);

	while (text) {
		ssize_t n = read(fd, text + used, capacity - used - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		if (n == 0) {
			text[used] = '\0';
			*size = used;
			return text;
		}
		used += (size_t)n;
		if (capacity - used < 4096) {
			char *more = realloc(text, capacity *= 4);

			if (!more)
				break;
			text = more;
		}
	}
	free(text);
	return NULL;
}

char *gck_proc_read(int proc, const char *name, size_t *size, struct gck_error *err)
{
	int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t n = 0;
	int code;

	if (fd >= 0)
		text = read_all(fd, &n);
	code = errno;
	if (fd >= 0)
		close(fd);
	if (!text) {
		gck_fail(err, code, "cannot read the process's %s: %s", name, strerror(code));
		return NULL;
	}
	if (size)
		*size = n;
	return text;
}

char *gck_proc_link(int proc, const char *name, struct gck_error *err)
{
	char text[PATH_MAX + 1];
	ssize_t n = readlinkat(proc, name, text, sizeof(text) - 1);
	char *copy;

	if (n < 0) {
		gck_fail(err, errno, "cannot read the process's %s: %s", name, strerror(errno));
		return NULL;
	}
	text[n] = '\0';
	copy = strdup(text);
	if (!copy)
		gck_fail(err, ENOMEM, "out of memory for the name of %s", name);
	return copy;
}

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Append to an array that doubles. */
static bool append(int **v, size_t *n, size_t *capacity, int x)
{
	if (*n == *capacity) {
		size_t more = *capacity ? *capacity * 2 : 64;
		int *grown = realloc(*v, more * sizeof(**v));

		if (!grown)
			return false;
		*v = grown;
		*capacity = more;
	}
	(*v)[(*n)++] = x;
	return true;
}

int gck_proc_list(int proc, const char *name, int **v, size_t *n, struct gck_error *err)
{
	int fd = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int *list = NULL;
	size_t used = 0, capacity = 0;
	struct dirent *e;
	bool good = true;

	if (!dir) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return gck_fail(err, code, "cannot list the process's %s: %s", name,
				strerror(code));
	}
	while (good && (e = readdir(dir)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			good = append(&list, &used, &capacity, atoi(e->d_name));
	closedir(dir);
	if (!good) {
		free(list);
		return gck_fail(err, ENOMEM, "out of memory for the list of %s", name);
	}
	if (used)
		qsort(list, used, sizeof(*list), compare);
	*v = list;
	*n = used;
	return 0;
}

const char *gck_proc_field(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		if (*line == '\n' && !*++line)
			break;
		if (!strncmp(line, key, length))
			return line + length + strspn(line + length, " \t");
	}
	return NULL;
}

uint64_t gck_proc_number(const char *text, const char *key, int base, uint64_t otherwise)
{
	const char *value = gck_proc_field(text, key);

	return value ? strtoull(value, NULL, base) : otherwise;
}

static int read_stat(int proc, const char *name, char *state, uint64_t v[GCK_STAT_FIELDS],
		     struct gck_error *err)
{
	char *text = gck_proc_read(proc, name, NULL, err);
	char *at = text ? strrchr(text, ')') : NULL;

	memset(v, 0, GCK_STAT_FIELDS * sizeof(*v));
	if (!at || at[1] != ' ' || !at[2]) {
		free(text);
		return text ? gck_fail(err, EPROTO, "the process's stat has no state") : -1;
	}
	*state = at[2];
	at += 3;
	for (int i = 4; i < GCK_STAT_FIELDS; i++)
		v[i] = strtoull(at, &at, 10);
	free(text);
	return 0;
}

int gck_proc_stat(int proc, char *state, uint64_t v[GCK_STAT_FIELDS], struct gck_error *err)
{
	return read_stat(proc, "stat", state, v, err);
}

static bool thread_ended(int proc)
{
	uint64_t v[GCK_STAT_FIELDS];
	char state;

	return gck_proc_stat(proc, &state, v, NULL) || state == 'Z' || state == 'X' ||
	       (v[9] & PF_EXITING);
}

/* Whether the thread still runs. When the whole process ends, SIGKILL is pending in all threads
 * until they exit. */
static bool runs_on(int proc, int tid)
{
	char name[32], *status;
	int thread;
	bool runs;

	snprintf(name, sizeof(name), "task/%d", tid);
	thread = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (thread < 0)
		return false;
	status = gck_proc_read(thread, "status", NULL, NULL);
	runs = status && !(gck_proc_number(status, "SigPnd:", 16, 0) & 1ull << (SIGKILL - 1)) &&
	       !thread_ended(thread);
	free(status);
	close(thread);
	return runs;
}

bool gck_proc_is_worker(int proc, int tid)
{
	uint64_t v[GCK_STAT_FIELDS];
	char name[32], state;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	return !read_stat(proc, name, &state, v, NULL) && v[9] & PF_IO_WORKER;
}

bool gck_proc_headless(int proc)
{
	int *tids = NULL;
	bool runs = false;
	size_t n = 0;

	if (!thread_ended(proc) || gck_proc_list(proc, "task", &tids, &n, NULL))
		return false;
	for (size_t i = 0; i < n && !runs; i++)
		runs = runs_on(proc, tids[i]);
	free(tids);
	return runs;
}

bool gck_proc_ended(int proc)
{
	return thread_ended(proc) && !gck_proc_headless(proc);
}

int gck_proc_runs(int proc, pid_t pid, struct gck_error *err)
{
	uint64_t v[GCK_STAT_FIELDS];
	char state;

	if (gck_proc_stat(proc, &state, v, err))
		return -1;
	if (state != 'T')
		return 0;
	return gck_fail(err, EBUSY, "process %d is stopped by a signal; " GCK_PROC_CONTINUE,
			(int)pid);
}

/* ---- clocks -------------------------------------------------------------------------------- */

#define NS 1000000000ll

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

int64_t gck_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* The time namespace's offset to the node's clock; 0 on a kernel without time namespaces. */
static int64_t offset_of(int proc)
{
	char *text = gck_proc_read(proc, "timens_offsets", NULL, NULL);
	const char *at = text ? gck_proc_field(text, "monotonic") : NULL;
	long long s = 0, ns = 0;

	if (at && sscanf(at, "%lld %lld", &s, &ns) != 2)
		s = ns = 0;
	free(text);
	return s * NS + ns;
}

int64_t gck_monotonic_of(int proc)
{
	int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t now = read_clock(CLOCK_MONOTONIC) + offset_of(proc);

	if (self >= 0) {
		now -= offset_of(self);
		close(self);
	}
	return now;
}

/* ---- its program ---------------------------------------------------------------------------- */

int gck_proc_loader(int proc, char *path, size_t size)
{
	int fd = openat(proc, "exe", O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : gck_program_loader(fd, path, size);

	if (fd >= 0)
		close(fd);
	return rc;
}
