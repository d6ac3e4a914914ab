/* SPDX-License-Identifier: Apache-2.0
 * The ranks of this node, and the control socket that reports them. */
#include "coordinator/agent/base/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/process.h"

struct task *tasks_by_pid(const struct tasks *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->pid == pid && !t->v[i]->ended)
			return t->v[i];
	return NULL;
}

/* The number of a process in a PID namespace below ours, and its parent here. 0: it is in ours. */
static pid_t number_inside(pid_t pid, pid_t *parent)
{
	int proc = gck_proc_open(pid, NULL), own = 0, inside = 0;
	char *status = proc < 0 ? NULL : gck_proc_read(proc, "status", NULL, NULL);
	const char *numbers = status ? gck_proc_field(status, "NSpid:") : NULL;

	*parent = status ? (pid_t)gck_proc_number(status, "PPid:", 10, 0) : 0;
	if (!numbers || sscanf(numbers, "%d %d", &own, &inside) != 2)
		inside = 0;
	free(status);
	if (proc >= 0)
		close(proc);
	return inside;
}

struct task *tasks_take_apart(const struct tasks *t, pid_t pid)
{
	pid_t parent, number = number_inside(pid, &parent);
	struct task *task = number ? tasks_by_pid(t, parent) : NULL;

	if (task) {
		task->pid = pid;
		task->number = number;
	}
	return task;
}

pid_t task_number(const struct task *t)
{
	return t->number ? t->number : t->pid;
}

pid_t task_beside(const struct task *t)
{
	return t->number ? t->pid : 0;
}

/* The agent has no number for it if it is in another PID namespace. */
bool task_process_ended(const struct task *t, pid_t number)
{
	char path[64];
	bool ended;
	int proc;

	if (!t->number)
		return gck_process_ended(number);
	snprintf(path, sizeof path, "/proc/%d/root/proc/%d", (int)t->pid, (int)number);
	proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ended = proc < 0 || gck_proc_ended(proc);
	if (proc >= 0)
		close(proc);
	return ended;
}

struct task *tasks_above(const struct tasks *t, pid_t pid)
{
	struct task *found = tasks_by_pid(t, pid);

	for (size_t i = 0; i < t->n && !found; i++)
		if (!t->v[i]->ended && gck_is_descendant(pid, t->v[i]->pid))
			found = t->v[i];
	return found;
}

struct task *tasks_by_rank(const struct tasks *t, uint32_t rank)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->rank == rank)
			return t->v[i];
	return NULL;
}

bool tasks_all_ended(const struct tasks *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended)
			return false;
	return t->n > 0;
}

bool task_is_stopped(const struct task *t)
{
	struct gck_error why = { 0 };

	return !t->ended && gck_process_runs(t->pid, &why) && why.code == EBUSY;
}

const struct task *tasks_stopped(const struct tasks *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (task_is_stopped(t->v[i]))
			return t->v[i];
	return NULL;
}

static struct task *tasks_add(struct tasks *t, const struct gck_control *m)
{
	struct task **v = realloc(t->v, (t->n + 1) * sizeof *v);
	struct task *task = calloc(1, sizeof *task);

	if (v)
		t->v = v;
	if (!v || !task) {
		free(task);
		return NULL;
	}
	task->rank = m->rank;
	task->pid = m->pid;
	task->pidfd = task->tracker_fds[0] = task->tracker_fds[1] = -1;
	t->v[t->n++] = task;
	return task;
}

struct task *tasks_apply(struct tasks *t, const struct gck_control *m)
{
	struct task *task = tasks_by_rank(t, m->rank);

	switch (m->type) {
	case GCK_CONTROL_TASK:
		return task ? NULL : tasks_add(t, m);
	case GCK_CONTROL_EXIT:
		if (!task || task->ended)
			return NULL;
		task->ended = true;
		task->status = m->status;
		return task;
	default:
		return NULL;
	}
}

void tasks_begin_requests(struct task_requests *asks)
{
	uint32_t all = asks->asked[GCK_REQUEST_ALL];

	memset(asks, 0, sizeof *asks);
	asks->asked[GCK_REQUEST_ALL] = asks->committed[GCK_REQUEST_ALL] = all;
}

void tasks_close_tracker(struct task *t)
{
	for (int i = 0; i < 2; i++) {
		if (t->tracker_fds[i] >= 0)
			close(t->tracker_fds[i]);
		t->tracker_fds[i] = -1;
	}
}

json_t *tasks_json(const struct tasks *t)
{
	json_t *all = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended)
			json_array_append_new(all, json_pack("{s:I, s:i}", "rank",
				(json_int_t)t->v[i]->rank, "pid", (int)t->v[i]->pid));
	return all;
}

int control_take(int fd, struct gck_control *m)
{
	ssize_t n;

	do {
		n = recv(fd, m, sizeof *m, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof *m)
		return 1;
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

int exit_code(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return 128 + WTERMSIG(wait_status);
	return WEXITSTATUS(wait_status);
}
