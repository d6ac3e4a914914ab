/* SPDX-License-Identifier: Apache-2.0
 * One rank of this node in a checkpoint. */
#include "coordinator/agent/checkpoint/rank_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/worker/child.h"
#include "shim/process/process.h"

const char *const phase_names[PHASES] = { "prepare", "quiesce", "freeze", "resume", "write",
					 "commit" };

enum phase phase_of(const char *name)
{
	int p = 0;

	while (p < PHASES && strcmp(name, phase_names[p]))
		p++;
	return (enum phase)p;
}

static void on_message(void *data, const json_t *body)
{
	struct rank_checkpoint *m = data;
	const char *name = packet_text(body, "phase", "");
	enum phase p = phase_of(name);

	if (!strcmp(packet_text(body, "op", ""), "memory")) {
		if (!m->memory)
			m->memory = json_array();
		json_array_extend(m->memory, json_object_get(body, "all"));
	} else if (!strcmp(packet_text(body, "op", ""), "progress")) {
		bool upload = !strcmp(name, "upload");
		uint64_t *done = upload ? &m->sent : &m->done;
		bool more = (uint64_t)packet_int(body, "done", 0) > *done;

		*done = (uint64_t)packet_int(body, "done", 0);
		*(upload ? &m->waiting : &m->all) = (uint64_t)packet_int(body, "all", 0);
		if (more) {
			free(m->trouble);
			m->trouble = NULL;
			m->t->ops->progressed(m);
		}
	} else if (!strcmp(packet_text(body, "op", ""), "trouble")) {
		free(m->trouble);
		m->trouble = strdup(packet_text(body, "why", ""));
	} else if (!strcmp(name, "stage")) {
		m->staged = true;
		m->waiting = (uint64_t)packet_int(body, "staged", 0);
		m->t->ops->staged(m, packet_text(body, "unstaged", ""));
	} else if (!strcmp(name, "reserve") || !strcmp(name, "copy")) {
		*(*name == 'r' ? &m->reserved : &m->copied) = packet_bool(body, "ok");
		m->t->ops->answered(m, PHASES, body);
	} else if (p < PHASES && !m->answer[p]) {
		if (packet_bool(body, "ok"))
			m->answer[p] = json_incref((json_t *)body);
		m->t->ops->answered(m, p, body);
	}
}

static void on_end(void *data, int status)
{
	struct rank_checkpoint *m = data;

	m->child = NULL;
	link_return(m->task, WIFEXITED(status) && WEXITSTATUS(status) == 0);
	m->t->ops->worker_ended(m, status);
}

static const struct child_ops ops = { worker_main, on_message, on_end };

void rank_checkpoint_init(struct rank_checkpoint *m, struct transaction *t, struct task *task)
{
	*m = (struct rank_checkpoint){ .t = t, .task = task };
}

struct gpu_process *rank_checkpoint_gpu(const struct rank_checkpoint *m, pid_t number)
{
	for (size_t i = 0; i < m->ngpus; i++)
		if (m->gpus[i].number == number)
			return &m->gpus[i];
	return NULL;
}

struct gpu_process *rank_checkpoint_add_gpu(struct rank_checkpoint *m, pid_t number,
					    struct gck_error *err)
{
	struct gpu_process *g = rank_checkpoint_gpu(m, number);

	if (!g)
		g = gck_grow(&m->gpus, &m->ngpus, sizeof *g, err);
	if (g && !g->number)
		*g = (struct gpu_process){ .number = number, .device = { { -1, -1 }, { -1, -1 } } };
	return g;
}

/* The agent gives a sign of life twice a second. The worker's limit is the longest that ranks
 * are held, so that a starved agent is waited for. */
static void fill(struct rank_checkpoint *m, const json_t *prepare, const struct step *s)
{
	m->work = (struct worker_task){
		.step = s, .rank = m->task->rank, .pid = task_number(m->task),
		.link = m->task->link->fd, .hello = m->task->link->hello, .alone = m->t->n == 1,
		.seq = (uint32_t)packet_int(prepare, "seq", 0),
		.backstop_ms = m->t->held_ms + TRANSACTION_BACKSTOP_MORE_MS,
		.keep_held = packet_bool(prepare, "keep_held"),
		.base_named = json_object_get(prepare, "base") != NULL,
		.base = (uint32_t)packet_int(prepare, "base", 0),
		.tracker_fds = { m->task->tracker_fds[0], m->task->tracker_fds[1] },
	};
	snprintf(m->work.nonce, sizeof m->work.nonce, "%s", packet_text(prepare, "nonce", ""));
	snprintf(m->work.key, sizeof m->work.key, "%s", packet_text(prepare, "key", ""));
	snprintf(m->work.hash, sizeof m->work.hash, "%s", packet_text(prepare, "base_hash", ""));
}

/* A channel for the data of each process's devices. Without one that data goes to host memory. */
static int make_channels(struct rank_checkpoint *m, struct gck_error *err)
{
	for (const struct thread_link *l = m->task->cuda; l; l = l->next) {
		pid_t number = thread_link_number(l);
		struct gpu_process *g = rank_checkpoint_add_gpu(m, number, err);
		struct worker_device *d = g ? gck_grow(&m->work.devices, &m->work.ndevices,
						       sizeof *d, err) : NULL;

		if (!d)
			return -1;
		(void)!gck_device_channel_make(&g->device, NULL); /* optional, see above */
		d->pid = number;
		memcpy(d->fds, g->device.own, sizeof d->fds);
	}
	return 0;
}

/* The worker's descriptors: its link to the rank, and its ends of the channels. */
static struct child *start_child(struct rank_checkpoint *m, struct gck_error *err)
{
	const size_t n = 3 + GCK_LINK_DATA_FDS * m->work.ndevices;
	int *keep = calloc(n, sizeof *keep);
	struct child *child;

	if (!keep) {
		gck_fail(err, ENOMEM, "no memory for a worker");
		return NULL;
	}
	keep[0] = m->task->link->fd;
	memcpy(keep + 1, m->task->tracker_fds, sizeof m->task->tracker_fds);
	for (size_t i = 0; i < m->work.ndevices; i++)
		memcpy(keep + 3 + GCK_LINK_DATA_FDS * i, m->work.devices[i].fds,
		       sizeof m->work.devices[i].fds);
	child = child_start(m->t->agent->loop, &ops, &m->work,
			    task_beside(m->task), keep, n, m, err);
	free(keep);
	return child;
}

static struct child *start_worker(struct rank_checkpoint *m, const json_t *prepare,
				  struct gck_error *err)
{
	struct child *child;

	fill(m, prepare, m->t->agent->step);
	child = make_channels(m, err) == 0 ? start_child(m, err) : NULL;
	for (size_t i = 0; i < m->ngpus; i++)
		gck_device_channel_drop(m->gpus[i].device.own);
	free(m->work.devices);
	m->work.devices = NULL;
	m->work.ndevices = 0;
	return child;
}

/* For the dirty page tracker, which a worker leaves here for the next. Without it all pages are
 * read. */
static void make_shelf(struct task *t)
{
	if (t->tracker_fds[0] < 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, t->tracker_fds))
		t->tracker_fds[0] = t->tracker_fds[1] = -1;
}

int rank_checkpoint_start(struct rank_checkpoint *m, const json_t *prepare, struct gck_error *err)
{
	struct link *l = m->task->link;

	if (!l && gck_process_runs(m->task->pid, err))
		return -1; /* its link ended with a worker; its helper cannot connect again */
	if (!l || l->waiting)
		return gck_fail(err, ENOTCONN, "pid %d has %s: a checkpoint needs a dynamically "
				"linked program of glibc that is not set-uid, with LD_PRELOAD left "
				"as it is, and no seccomp filter for all threads",
				(int)m->task->pid, l ? "not been let go" : "no link to the agent");
	make_shelf(m->task);
	m->child = start_worker(m, prepare, err);
	if (!m->child)
		return -1;
	link_lend(l);
	return 0;
}

void rank_checkpoint_tell(struct rank_checkpoint *m, json_t *body)
{
	if (m->child)
		child_tell(m->child, body);
	else
		json_decref(body);
}

void rank_checkpoint_dismiss(struct rank_checkpoint *m, bool at_once)
{
	if (m->child && at_once)
		child_kill(m->child);
	else
		rank_checkpoint_tell(m, json_pack("{s:s}", "op", "abort"));
}

bool rank_checkpoint_held(const struct rank_checkpoint *m)
{
	return m->child && m->answer[PHASE_FREEZE] && !m->answer[PHASE_RESUME];
}

/* The worker of a rank that was let go may stay for long: in the kernel, or in a store that does
 * not answer. */
bool rank_checkpoint_may_be_held(const struct rank_checkpoint *m)
{
	return m->child && m->told_freeze && !m->answer[PHASE_RESUME];
}

bool rank_checkpoint_answered(const struct rank_checkpoint *m, enum phase p)
{
	if (p == PHASE_PREPARE && m->told_reserve && !m->reserved)
		return m->carried;
	if (p == PHASE_FREEZE && m->told_copy && !m->copied)
		return m->carried;
	return m->carried || m->answer[p];
}

bool rank_checkpoint_gone(const struct rank_checkpoint *m)
{
	return m->task->ended || gck_process_ended(m->task->pid);
}

void rank_checkpoint_clear(struct rank_checkpoint *m)
{
	for (int p = 0; p < PHASES; p++)
		json_decref(m->answer[p]);
	memset(m->answer, 0, sizeof m->answer);
	json_decref(m->memory);
	m->memory = NULL;
	free(m->trouble);
	m->trouble = NULL;
	for (size_t i = 0; i < m->ngpus; i++)
		gck_device_channel_drop(m->gpus[i].device.rank);
	free(m->gpus);
	m->gpus = NULL;
	m->ngpus = 0;
}
