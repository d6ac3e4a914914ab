/* SPDX-License-Identifier: Apache-2.0
 * Attributes of the whole process: namespaces, limits, memory layout, directory, program and CPU.
 * Scan and restore. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ptrace/fd_channel.h"
#include "shim/process/threads/threads.h"
#include "shim/process/tree/tree.h"

#define MAX_AUXV 1024

/* ---- scan ---------------------------------------------------------------------------------- */

static void check_namespaces(struct gck_scan *s)
{
	static const char *const names[] = {"mnt", "user", "pid", "net", "ipc", "uts"};
	struct stat theirs, ours;
	char path[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		if (fstatat(s->t->proc, path + strlen("/proc/self/"), &theirs, 0) == 0 &&
		    stat(path, &ours) == 0 && theirs.st_ino != ours.st_ino)
			gck_obstacle_add(s->f, true, "process", "start gpuckpt's step inside it",
				 "it has its own %s namespace", names[i]);
	}
	if (fstatat(s->t->proc, "root", &theirs, 0) == 0 && stat("/", &ours) == 0 &&
	    (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev))
		gck_obstacle_add(s->f, true, "process", "start gpuckpt's step inside it",
			 "it has its own root directory (chroot)");
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
		gck_obstacle_add(s->f, true, "process", GCK_PROC_CONTINUE,
			 "it is stopped by a signal");
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
	    stat(s->img->cwd, &there) || access(s->img->cwd, X_OK))
		gck_obstacle_add(s->f, true, "process", "change to a directory that exists",
			 "its working directory is gone or cannot be entered: %s", s->img->cwd);
	return 0;
}

int gck_scan_process(struct gck_scan *s)
{
	char *status = gck_proc_read(s->t->proc, "status", NULL, s->err), *text;

	if (!status)
		return -1;
	s->img->umask = (uint32_t)gck_proc_number(status, "Umask:", 8, 022);
	gck_check_credentials(s, status);
	gck_note_locks(s, status);
	free(status);
	check_namespaces(s);
	if (s->t->shim->overflow)
		gck_obstacle_add(s->f, true, "threads", "use fewer threads",
				 "there were more than %d threads at a time",
				 GCK_SHIM_MAX_TIDS);
	s->img->vpid = s->t->shim->vpid;
	s->img->keeps_numbers = s->t->shim->features & GCK_SHIM_IMPLANTED;
	s->img->restarts = s->t->shim->restarts;
	s->img->shim_state = s->t->address;
	text = gck_proc_read(s->t->proc, "personality", NULL, NULL);
	s->img->personality = text ? (uint32_t)strtoul(text, NULL, 16) : 0;
	free(text);
	if (gck_scan_children(s) || read_limits(s) || read_memory_layout(s) || read_directory(s))
		return -1;
	return gck_scan_timer_list(s);
}

/* The flags of the first CPU, at the start of /proc/cpuinfo, which can be long and slow to read. */
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

	if (gck_scan_credentials(s) || gck_scan_orphans(s))
		return -1;
	s->img->exe = gck_proc_link(s->t->proc, "exe", s->err);
	if (!s->img->exe)
		return -1;
	n = strlen(s->img->exe);
	if (gck_path_deleted(s->img->exe)) {
		s->img->exe[n - strlen(" (deleted)")] = '\0';
		gck_obstacle_add(s->f, false, s->img->exe, "keep the program while it runs",
			 "the program's file was replaced or removed");
	}
	if (!s->img->cpu_flags)
		s->img->cpu_flags = read_cpu_flags(s->err);
	return s->img->cpu_flags ? 0 : -1;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int64_t call(struct gck_restore *r, struct gck_error *err, long nr, uint64_t a, uint64_t b,
		    uint64_t c, uint64_t d)
{
	return gck_remote_call(&r->remote, r->remote.pid, err, nr, a, b, c, d);
}

/* Set whether memory may be huge pages, before it is filled. */
int gck_restore_prepare_process(struct gck_restore *r, struct gck_error *err)
{
	int64_t result =
		call(r, err, SYS_prctl, PR_SET_THP_DISABLE, (uint64_t)r->img->thp_disable, 0, 0);

	return gck_remote_check(result, err, "process %d: huge pages cannot be set",
				r->remote.pid);
}

/* Set heap, arguments, environment and auxiliary vector, for brk() and /proc. Needs no
 * privilege. */
static int set_mm(struct gck_restore *r, struct gck_error *err)
{
	const struct gck_image *m = r->img;
	uint64_t at = r->remote.scratch;
	struct prctl_mm_map map = {
		.start_code = m->start_code,
		.end_code = m->end_code,
		.start_data = m->start_data,
		.end_data = m->end_data,
		.start_brk = m->start_brk,
		.brk = m->brk,
		.start_stack = m->start_stack,
		.arg_start = m->arg_start,
		.arg_end = m->arg_end,
		.env_start = m->env_start,
		.env_end = m->env_end,
		.exe_fd = (uint32_t)-1,
		.auxv = (void *)(uintptr_t)(at + sizeof map),
		.auxv_size = (uint32_t)m->auxv_size,
	};
	int64_t result;

	if (m->auxv_size > MAX_AUXV)
		return gck_fail(err, EBADMSG, "the image's auxiliary vector is too long");
	if (gck_remote_write(&r->remote, at, &map, sizeof map, err) ||
	    (m->auxv_size &&
	     gck_remote_write(&r->remote, at + sizeof map, m->auxv, m->auxv_size, err)))
		return -1;
	result = call(r, err, SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, at, sizeof map);
	return gck_remote_check(result, err,
				"process %d: its heap and stack cannot be set in the kernel "
				"(PR_SET_MM_MAP; is its data limit, ulimit -d, too low?)",
				r->remote.pid);
}

static int set_directory(struct gck_restore *r, struct gck_error *err)
{
	int at, there, rc = -1;
	struct gck_batch b;

	if (!r->img->cwd)
		return 0;
	at = gck_place_open(r->img->cwd, NULL, NULL);
	if (at < 0)
		return gck_fail(err, errno, "cannot open the working directory %s: %s",
				r->img->cwd, gck_place_reason(errno));
	there = gck_restore_give(r, at, err);
	b.n = 0;
	gck_batch_add(&b, SYS_fchdir, (uint64_t)there);
	gck_batch_add(&b, SYS_close, (uint64_t)there);
	if (there >= 0 && !gck_remote_run(&r->remote, r->remote.pid, &b, err))
		rc = gck_remote_check(b.calls[0].result, err,
				      "cannot enter the working directory %s", r->img->cwd);
	close(at);
	return rc;
}

int gck_restore_process(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	if (set_mm(r, err) || set_directory(r, err) || gck_restore_attributes(r, err))
		return -1;
	b.n = 0;
	gck_batch_add(&b, SYS_personality, r->img->personality);
	gck_batch_add(&b, SYS_umask, r->img->umask);
	return gck_remote_run(&r->remote, r->remote.pid, &b, err);
}

/* Set the image's soft limits, as far as the new hard limits allow. */
static int set_limits(const struct gck_restore *r, struct gck_error *err)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;

		if (prlimit(r->remote.pid, (enum __rlimit_resource)i, NULL, &limit))
			return gck_fail(err, errno, "process %d: reading its limits: %s",
					r->remote.pid, strerror(errno));
		limit.rlim_cur = r->img->limits[i][0] < limit.rlim_max ? r->img->limits[i][0]
								       : limit.rlim_max;
		if (prlimit(r->remote.pid, (enum __rlimit_resource)i, &limit, NULL))
			return gck_fail(err, errno, "process %d: setting its limits: %s",
					r->remote.pid, strerror(errno));
	}
	return 0;
}

/* Set what would hinder the other steps. */
int gck_restore_process_last(struct gck_restore *r, struct gck_error *err)
{
	if (set_limits(r, err) || gck_restore_last_attributes(r, err))
		return -1;
	return call(r, err, SYS_close_range, (uint64_t)r->high, UINT_MAX, 0, 0) == -ESRCH ? -1 : 0;
}
