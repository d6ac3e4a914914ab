/* SPDX-License-Identifier: Apache-2.0
 * Processes that a rank has made: its children, and descendants whose parent has ended, so that
 * another process is their parent now. Those have the rank's PID in their environment
 * (GPUCKPT_PID), which programs inherit. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"

/* Whether the rank runs a script that starts the program as its child. */
static bool is_shell(int proc)
{
	static const char *const shells[] = {"bash", "dash", "sh", "ksh", "zsh", "csh", "tcsh"};
	char path[PATH_MAX];
	ssize_t n = readlinkat(proc, "exe", path, sizeof(path) - 1);
	const char *name;

	path[n > 0 ? n : 0] = '\0';
	name = strrchr(path, '/');
	for (size_t i = 0; name && i < sizeof(shells) / sizeof(*shells); i++)
		if (!strcmp(name + 1, shells[i]))
			return true;
	return false;
}

static void name_child(struct gck_scan *s, pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = 0;
	bool ended = proc >= 0 && !gck_proc_stat(proc, &state, v, NULL) && state == 'Z';

	if (proc >= 0)
		close(proc);
	if (ended)
		gck_obstacle_add_passing(s->f, "process", "the program must call wait() for it",
			 "it has a child process that has ended and was not waited for: %d",
			 (int)pid);
	else
		gck_obstacle_add_passing(s->f, "process", is_shell(s->t->proc) ?
			 "let the script start the program with exec" : "wait until it has ended",
			 "it has a child process: %d", (int)pid);
}

int gck_scan_children(struct gck_scan *s)
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
			name_child(s, atoi(text));
		free(text);
	}
	free(tids);
	return 0;
}

/* Whether this process's environment is that of rank, or of a descendant of it. Without the right
 * to read it, it is not ours. */
static bool is_marked(int proc, pid_t rank)
{
	static const char name[] = "GPUCKPT_PID=";
	size_t size;
	char *all = gck_proc_read(proc, "environ", &size, NULL);
	const char *entry = all ? gck_slots_find(all, size, name) : NULL;
	bool marked = entry && atoi(entry + sizeof(name) - 1) == rank;

	free(all);
	return marked;
}

static bool is_marked_pid(pid_t pid, pid_t rank)
{
	int proc = gck_proc_open(pid, NULL);
	bool marked = proc >= 0 && is_marked(proc, rank);

	if (proc >= 0)
		close(proc);
	return marked;
}

/* Whether it is a descendant of the rank, but no descendant's child: those are the child's matter.
 * The rank's clones are its children. */
static bool is_orphan(pid_t pid, pid_t rank)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state;
	bool orphan = proc >= 0 && pid != rank && is_marked(proc, rank) &&
		      !gck_proc_stat(proc, &state, v, NULL) && (pid_t)v[4] != rank &&
		      !is_marked_pid((pid_t)v[4], rank);

	if (proc >= 0)
		close(proc);
	return orphan;
}

int gck_scan_orphans(struct gck_scan *s)
{
	int all = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), *pids;
	struct stat rank, st;
	char name[16];
	size_t n;

	if (all < 0 || fstat(s->t->proc, &rank))
		return gck_fail(s->err, errno, "cannot list the processes: %s", strerror(errno));
	if (gck_proc_list(all, ".", &pids, &n, s->err)) {
		close(all);
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%d", pids[i]);
		if (fstatat(all, name, &st, 0) == 0 && st.st_uid == rank.st_uid &&
		    is_orphan(pids[i], s->t->pid))
			gck_obstacle_add_passing(s->f, "process", "wait until it has ended",
					 "it has a descendant process whose parent has ended: %d",
					 pids[i]);
	}
	free(pids);
	close(all);
	return 0;
}
