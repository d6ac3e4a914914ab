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
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/tree/tree.h"

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

static void refuse(struct gck_scan *s, pid_t pid, const char *remedy, const char *what)
{
	gck_obstacle_add_passing(s->f, "process", remedy, "it has a child process%s: %d", what,
				 (int)pid);
}

#define STAT_GROUP 5
#define STAT_SESSION 6
#define STAT_EXIT_SIGNAL 38
#define STAT_STATUS 52
#define WAIT "the program must call wait() for it"

/* The vpid of the leader of this group, which is no group of the rank's: a child that is known.
 * 0: there is none. */
static int32_t leader(const struct gck_image *img, uint64_t group)
{
	for (size_t i = 0; i < img->nchildren; i++)
		if ((uint64_t)img->children[i].rpid == group)
			return img->children[i].vpid;
	return 0;
}

/* v: the fields of its stat; rank: those of the rank's. */
static int add_ended(struct gck_scan *s, pid_t pid, const uint64_t *v, const uint64_t *rank)
{
	struct gck_child *x = gck_grow(&s->img->children, &s->img->nchildren, sizeof(*x), s->err);
	bool own_session = v[STAT_SESSION] == (uint64_t)pid;
	bool in_rank = v[STAT_GROUP] == rank[STAT_GROUP];

	if (!x)
		return -1;
	x->rpid = pid;
	x->vpid = gck_target_vtid(s->t, pid);
	x->exit_signal = (int32_t)v[STAT_EXIT_SIGNAL];
	x->session = own_session;
	x->group = in_rank ? 0 : leader(s->img, v[STAT_GROUP]);
	if (!(s->t->shim->features & GCK_SHIM_WAITS))
		refuse(s, pid, WAIT, " that has ended and was not waited for");
	else if (WCOREDUMP((int)v[STAT_STATUS]))
		refuse(s, pid, WAIT, " that has ended with a core dump and was not waited for");
	else if ((!in_rank && !x->group) ||
		 (v[STAT_SESSION] != rank[STAT_SESSION] && !own_session))
		refuse(s, pid, WAIT, " in another's process group that has ended and was not "
		       "waited for");
	return 0;
}

static int add_child(struct gck_scan *s, pid_t pid, const uint64_t *rank)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = 0;
	bool ended = proc >= 0 && !gck_proc_stat(proc, &state, v, NULL) && state == 'Z' &&
		     !gck_proc_headless(proc);

	if (proc >= 0)
		close(proc);
	if (ended)
		return add_ended(s, pid, v, rank);
	refuse(s, pid, is_shell(s->t->proc) ? "let the script start the program with exec"
					    : "wait until it has ended", "");
	return 0;
}

static int add_children(struct gck_scan *s, const char *list, const uint64_t *rank)
{
	char *end;

	for (long pid; (pid = strtol(list, &end, 10)) > 0; list = end)
		if (add_child(s, (pid_t)pid, rank))
			return -1;
	return 0;
}

int gck_scan_children(struct gck_scan *s)
{
	uint64_t rank[GCK_STAT_FIELDS];
	int *tids, result;
	char state;
	size_t n;

	if (gck_proc_stat(s->t->proc, &state, rank, s->err) ||
	    gck_proc_list(s->t->proc, "task", &tids, &n, s->err))
		return -1;
	result = 0;
	for (size_t i = 0; i < n && !result; i++) {
		char file[48], *text;

		snprintf(file, sizeof(file), "task/%d/children", tids[i]);
		text = tids[i] == s->t->shim->helper_tid
			       ? NULL : gck_proc_read(s->t->proc, file, NULL, NULL);
		result = text ? add_children(s, text, rank) : 0;
		free(text);
	}
	free(tids);
	return result;
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
