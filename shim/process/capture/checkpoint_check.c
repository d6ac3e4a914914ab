/* SPDX-License-Identifier: Apache-2.0
 * gck_process_able: the obstacles to a checkpoint, found without stopping anything. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/process.h"

#define APART_NS 10000000000ll

/* Report what no image of this version contains, but most programs do not need. */
static void note_limits(struct gck_obstacles *f)
{
	static const char *const notes[][3] = {
		{"clocks", "CPU time clocks and the kernel's usage counters start from zero",
		 "use CLOCK_MONOTONIC"},
		{"environment",
		 "SLURM_* and other variables have the new step's values after a restart, in "
		 "programs that are executed then, too, but a program's own copies keep the old "
		 "ones",
		 "read them again, with getenv"},
		{"system calls",
		 "a call that stop signals interrupt (epoll_wait, sigtimedwait, .. in signal(7)) "
		 "may return EINTR at a checkpoint",
		 "repeat it, as after any signal"},
		{"writing",
		 "a write to a full pipe or socket that a checkpoint meets, and that does not end "
		 "within some 30 ms, may return with a part of its bytes written",
		 "write the rest, as after any short write"},
		{"sleeping",
		 "a sleep or wait with a relative time limit during a checkpoint starts again "
		 "after a restart, or returns EINTR if its code does not show which call it is",
		 "repeat it, as after any signal"},
		{"scheduling",
		 "memory policy and timer slack are not restored",
		 "set them again if they matter"},
	};

	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		gck_obstacle_add(f, false, notes[i][0], notes[i][2], "%s", notes[i][1]);
}

/* Report a missing time namespace. In the step's namespace CLOCK_MONOTONIC began as the real
 * time. */
static void note_clock(const struct gck_target *t, struct gck_obstacles *f)
{
	int64_t apart = gck_realtime() - gck_monotonic_of(t->proc);

	if (apart > APART_NS || apart < -APART_NS)
		gck_obstacle_add(f, false, "clocks",
				 "use nodes whose kernel has CONFIG_TIME_NS and whose slurmd has "
				 "CAP_SYS_ADMIN",
				 "the rank is not in a time namespace of the step's: it can "
				 "restart on this node, and on nodes that have been up longer than "
				 "this one");
}

uint64_t gck_managed_hold_ms(uint64_t bytes)
{
	return bytes ? 1000 + 1300 * (bytes >> 20) / 1024 : 0;
}

/* What is not on a GPU is copied faster, so this may be too much. */
static void note_hold(const struct gck_gpus *gpus, const struct gck_options *o,
		      struct gck_obstacles *f)
{
	uint64_t bytes = 0, ms;
	char remedy[32];

	for (size_t i = 0; i < gpus->n; i++)
		bytes += gpus->v[i].managed_bytes;
	ms = gck_managed_hold_ms(bytes);
	if (o->hold_auto || o->hold_ms >= ms)
		return;
	snprintf(remedy, sizeof remedy, "hold=%llus, or hold=auto",
		 (unsigned long long)(ms + 999) / 1000);
	gck_obstacle_add(f, false, "managed memory", remedy,
			 "a checkpoint copies %llu MiB of it in up to %.1f s if its GPUs have it, "
			 "and may hold ranks for %.1f s",
			 (unsigned long long)bytes >> 20, (double)ms / 1000,
			 (double)o->hold_ms / 1000);
}

bool gck_process_ended(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	bool ended = proc < 0 || gck_proc_ended(proc);

	if (proc >= 0)
		close(proc);
	return ended;
}

int gck_process_runs(pid_t pid, struct gck_error *err)
{
	int proc = gck_proc_open(pid, err), rc;

	if (proc < 0)
		return -1;
	rc = gck_proc_runs(proc, pid, err);
	close(proc);
	return rc;
}

bool gck_process_pending(pid_t pid, int sig)
{
	int proc = gck_proc_open(pid, NULL);
	char *status = proc < 0 ? NULL : gck_proc_read(proc, "status", NULL, NULL);
	bool pending = gck_proc_number(status, "ShdPnd:", 16, 0) & 1ull << (sig - 1);

	free(status);
	if (proc >= 0)
		close(proc);
	return pending;
}

static bool is_file_of(const char *path, int value)
{
	FILE *f = fopen(path, "re");
	int now = !value;
	bool is = f && fscanf(f, "%d", &now) == 1 && now == value;

	if (f)
		fclose(f);
	return is;
}

/* A restart makes one for the processes' old numbers. */
static void note_namespace(struct gck_obstacles *f)
{
	if (f->static_pid && geteuid() &&
	    (is_file_of("/proc/sys/user/max_user_namespaces", 0) ||
	     is_file_of("/proc/sys/kernel/unprivileged_userns_clone", 0) ||
	     is_file_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1)))
		gck_obstacle_add(f, false, "static program", "restart it on nodes that allow it, "
				 "or ask the administrator", "a restart needs a user namespace, "
				 "which users of this node may not make");
}

json_t *gck_process_able(pid_t pid, const struct gck_link_hello *hello,
			 const struct gck_options *o, struct gck_error *err)
{
	struct gck_obstacles f = {.items = json_array()};
	struct gck_tree_scan found = {.known = NULL};
	struct gck_target t;
	int failed;

	if (!f.items) {
		gck_fail(err, ENOMEM, "out of memory");
		return NULL;
	}
	failed = gck_target_open(&t, pid, -1, hello, err);
	if (!failed) {
		failed = gck_scan_whole(&t, o, &f, &found, err);
		note_clock(&t, &f);
		note_hold(&found.gpus, o, &f);
		note_namespace(&f);
		gck_target_close(&t);
	}
	gck_tree_scan_free(&found);
	if (failed) {
		json_decref(f.items);
		return NULL;
	}
	note_limits(&f);
	return f.items;
}
