/* SPDX-License-Identifier: Apache-2.0
 * Processes that a rank has made: children, and descendants whose parent has ended, so that another
 * process is their parent now. Those have the rank's PID in their environment
 * (GPUCKPT_PID), which programs inherit. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/environ_slots.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/process.h"
#include "shim/process/tree/tree.h"

#define MARK "GPUCKPT_PID=" /* of a rank's processes */
#define LINK "GPUCKPT_LINK=" /* of a step's, on a node */
#define STAT_PARENT 4
#define STAT_GROUP 5
#define STAT_SESSION 6
#define STAT_EXIT_SIGNAL 38
#define STAT_STATUS 52

static void refuse(struct gck_scan *s, pid_t pid, const char *remedy, const char *what)
{
	gck_obstacle_add_passing(s->f, "process", remedy, "it has a child process %s: %d", what,
				 (int)pid);
}

/* The vpid of the leader of this group, which is no group of the parent's: a child that is known.
 * 0: there is none. */
static int32_t leader(const struct gck_image *img, uint64_t group)
{
	for (size_t i = 0; i < img->nchildren; i++)
		if ((uint64_t)img->children[i].rpid == group)
			return img->children[i].vpid;
	return 0;
}

static struct gck_child *grow(struct gck_scan *s, pid_t pid, bool ended, const uint64_t *v)
{
	struct gck_child *x = gck_grow(&s->img->children, &s->img->nchildren, sizeof(*x), s->err);
	uint32_t able = GCK_SHIM_WAITS | GCK_SHIM_SUMMON;

	if (!x)
		return NULL;
	x->runs = !ended;
	x->rpid = pid;
	x->vpid = gck_target_vtid(s->t, pid);
	x->exit_signal = (int32_t)v[STAT_EXIT_SIGNAL];
	x->session = v[STAT_SESSION] == (uint64_t)pid;
	if ((s->t->shim->features & able) != able)
		refuse(s, pid, "wait until it has ended and was waited for", "and an old preload");
	return x;
}

/* v: the fields of its stat; parent: those of the parent's. */
static int add(struct gck_scan *s, pid_t pid, bool ended, const uint64_t *v,
	       const uint64_t *parent)
{
	struct gck_child *x = grow(s, pid, ended, v);
	bool in_parent = v[STAT_GROUP] == parent[STAT_GROUP];

	if (!x)
		return -1;
	x->group = in_parent ? 0 : leader(s->img, v[STAT_GROUP]);
	if (ended && WCOREDUMP((int)v[STAT_STATUS]))
		refuse(s, pid, "the program must call wait() for it",
		       "that has ended with a core dump");
	else if ((!in_parent && !x->group) ||
		 (v[STAT_SESSION] != parent[STAT_SESSION] && !x->session))
		refuse(s, pid, "wait until it has ended and was waited for",
		       "in another's process group");
	return 0;
}

static int add_child(struct gck_scan *s, pid_t pid, const uint64_t *parent)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = 0;
	bool found = proc >= 0 && !gck_proc_stat(proc, &state, v, NULL);
	bool ended = found && state == 'Z' && !gck_proc_headless(proc);

	if (proc >= 0)
		close(proc);
	return found ? add(s, pid, ended, v, parent) : 0;
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

uint64_t gck_descendants_bytes(const struct gck_image *img)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < img->nchildren; i++) {
		int proc = img->children[i].runs ? gck_proc_open(img->children[i].rpid, NULL) : -1;
		char *status = proc < 0 ? NULL : gck_proc_read(proc, "status", NULL, NULL);

		sum += status ? gck_proc_number(status, "VmRSS:", 10, 0) << 10 : 0;
		free(status);
		if (proc >= 0)
			close(proc);
	}
	return sum;
}

static pid_t parent_of(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state;
	pid_t parent = proc < 0 || gck_proc_stat(proc, &state, v, NULL) ? 0 : (pid_t)v[STAT_PARENT];

	if (proc >= 0)
		close(proc);
	return parent;
}

static char *read_environ(pid_t pid, size_t *size)
{
	int proc = gck_proc_open(pid, NULL);
	char *all = proc < 0 ? NULL : gck_proc_read(proc, "environ", size, NULL);

	if (proc >= 0)
		close(proc);
	return all;
}

/* Whether both environments have the same entry of this name. */
static bool is_same_entry(const char *a, size_t na, const char *b, size_t nb, const char *name)
{
	const char *x = gck_slots_find(a, na, name), *y = gck_slots_find(b, nb, name);

	return x && y && !strcmp(x, y);
}

/* By what a rank's processes are known, whoever their parent is. */
struct mark {
	pid_t rank;
	char *environ;
	size_t size;
};

static struct mark mark_of(pid_t rank)
{
	struct mark m = {.rank = rank};

	m.environ = read_environ(rank, &m.size);
	return m;
}

/* Whether this process's environment is that of the rank, or of a descendant of it. A rank of
 * another step may have had the same PID where it began: that one's link is another. Without the
 * right to read it, it is not ours. */
static bool is_marked(int proc, const struct mark *m)
{
	size_t size;
	char *all = gck_proc_read(proc, "environ", &size, NULL);
	const char *entry = all ? gck_slots_find(all, size, MARK) : NULL;
	bool marked = entry && atoi(entry + strlen(MARK)) == m->rank;

	if (marked && m->environ && gck_slots_find(m->environ, m->size, LINK))
		marked = is_same_entry(all, size, m->environ, m->size, LINK);
	free(all);
	return marked;
}

static bool is_marked_pid(pid_t pid, const struct mark *m)
{
	int proc = gck_proc_open(pid, NULL);
	bool marked = proc >= 0 && is_marked(proc, m);

	if (proc >= 0)
		close(proc);
	return marked;
}

/* Whether the process is below the rank, by its parents. */
static bool is_below(pid_t pid, pid_t rank)
{
	while (pid > 1 && pid != rank)
		pid = parent_of(pid);
	return pid == rank;
}

bool gck_is_descendant(pid_t pid, pid_t rank)
{
	struct mark m;
	bool marked;

	if (is_below(pid, rank))
		return true;
	m = mark_of(rank);
	marked = is_marked_pid(pid, &m);
	free(m.environ);
	return marked;
}

bool gck_is_of_step(pid_t pid, pid_t rank)
{
	size_t size, n = 0;
	char *of_rank = read_environ(rank, &size), *all;
	bool is = false;

	for (; of_rank && pid > 1 && !is; pid = parent_of(pid)) {
		all = read_environ(pid, &n);
		is = all && gck_slots_find(all, n, MARK) &&
		     is_same_entry(all, n, of_rank, size, LINK);
		free(all);
	}
	free(of_rank);
	return is;
}

/* Whether it is a descendant of the rank, but no descendant's child: those are the child's matter.
 * v gets its stat. The rank's clones are its children. */
static bool is_orphan(pid_t pid, const struct mark *m, uint64_t v[GCK_STAT_FIELDS])
{
	int proc = gck_proc_open(pid, NULL);
	char state = 'Z';
	bool orphan = proc >= 0 && pid != m->rank && is_marked(proc, m) &&
		      !gck_proc_stat(proc, &state, v, NULL) && state != 'Z' &&
		      !is_below(pid, m->rank) && !is_marked_pid((pid_t)v[STAT_PARENT], m);

	if (proc >= 0)
		close(proc);
	return orphan;
}

/* Whether the leader of its session runs, or another orphan is in the session. */
static bool is_shared_session(const struct gck_scan *s, const struct gck_child *x,
			      uint64_t session)
{
	for (size_t i = 0; i < s->img->nchildren; i++)
		if (&s->img->children[i] != x && s->img->children[i].leader == x->leader)
			return true;
	return !kill((pid_t)session, 0) || errno != ESRCH;
}

static int add_orphan(struct gck_scan *s, pid_t pid, const uint64_t *v, const uint64_t *rank)
{
	struct gck_child *x = grow(s, pid, false, v);
	bool in_session = v[STAT_SESSION] == rank[STAT_SESSION];
	uint64_t inherited = in_session ? rank[STAT_GROUP] : v[STAT_SESSION];

	if (!x)
		return -1;
	x->orphan = true;
	if (!in_session && !x->session)
		x->leader = gck_target_vtid(s->t, (pid_t)v[STAT_SESSION]);
	x->group = v[STAT_GROUP] == inherited && !x->session ? 0 : leader(s->img, v[STAT_GROUP]);
	if ((x->leader && is_shared_session(s, x, v[STAT_SESSION])) ||
	    (!x->group && v[STAT_GROUP] != inherited))
		refuse(s, pid, "wait until it has ended",
		       "whose parent has ended, in another's session or process group");
	return 0;
}

int gck_scan_orphan(struct gck_scan *s, pid_t pid)
{
	uint64_t rank[GCK_STAT_FIELDS], v[GCK_STAT_FIELDS];
	int proc = gck_proc_open(pid, s->err), failed;
	char state;

	failed = proc < 0 || gck_proc_stat(s->t->proc, &state, rank, s->err) ||
		 gck_proc_stat(proc, &state, v, s->err);
	if (proc >= 0)
		close(proc);
	return failed ? -1 : add_orphan(s, pid, v, rank);
}

int gck_scan_orphans(struct gck_scan *s)
{
	uint64_t v[GCK_STAT_FIELDS], own[GCK_STAT_FIELDS];
	struct stat rank, st;
	int all, *pids, failed = 0;
	char name[16], state;
	struct mark m;
	size_t n;

	if (s->t->rank) /* the rank's scan finds all */
		return 0;
	all = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (all < 0 || fstat(s->t->proc, &rank)) {
		gck_fail(s->err, errno, "cannot list the processes: %s", strerror(errno));
		if (all >= 0)
			close(all);
		return -1;
	}
	if (gck_proc_stat(s->t->proc, &state, own, s->err) ||
	    gck_proc_list(all, ".", &pids, &n, s->err)) {
		close(all);
		return -1;
	}
	m = mark_of(s->t->pid);
	for (size_t i = 0; i < n && !failed; i++) {
		snprintf(name, sizeof(name), "%d", pids[i]);
		if (fstatat(all, name, &st, 0) == 0 && st.st_uid == rank.st_uid &&
		    is_orphan(pids[i], &m, v))
			failed = add_orphan(s, pids[i], v, own);
	}
	free(m.environ);
	free(pids);
	close(all);
	return failed;
}
