/* SPDX-License-Identifier: Apache-2.0
 * Device memory that other processes free for one that found none. */
#include "config.h"

#include "coordinator/agent/checkpoint/reclaim.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

#define HEAD offsetof(struct gck_thread_msg, data)
#define UUID 16

struct reclaim {
	struct reclaim *next;
	struct agent *agent;
	pid_t who;
	int fd;
	ev_io end;            /* ends when the asking process closes it */
	uint64_t seq;
	uint32_t freed;
	size_t nasked, nawaited;
	pid_t awaited[];      /* processes that are asked; 0: it has answered */
};

static void drop(struct reclaim *n)
{
	struct reclaim **p = &n->agent->reclaims;

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	ev_io_stop(n->agent->loop, &n->end);
	close(n->fd);
	free(n);
}

static void answer_if_all(struct reclaim *n)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_RECLAIMED, .round = n->freed };

	if (n->nawaited)
		return;
	send(n->fd, &m, HEAD, MSG_NOSIGNAL | MSG_DONTWAIT);
	drop(n);
}

static void on_end(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	drop(io->data);
}

static struct reclaim *make(struct agent *a, pid_t who, int fd, size_t most)
{
	static uint64_t serial;
	struct reclaim *n = calloc(1, sizeof *n + most * sizeof *n->awaited);

	if (!n)
		return NULL;
	n->agent = a;
	n->who = who;
	n->fd = fd;
	n->seq = ++serial;
	n->next = a->reclaims;
	a->reclaims = n;
	ev_io_init(&n->end, on_end, fd, EV_READ);
	n->end.data = n;
	ev_io_start(a->loop, &n->end);
	return n;
}

/* Does the process wait at its gate for an answer to its own request? It is to be drained and has
 * no copies yet, and two such processes would wait for each other. */
static bool is_stuck(const struct thread_link *l)
{
	const struct reclaim *n = l->agent->reclaims;

	while (n && n->who != l->pid)
		n = n->next;
	return n && gpu_drains(l);
}

static size_t count_links(const struct agent *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->tasks.n; i++)
		for (const struct thread_link *l = a->tasks.v[i]->cuda; l; l = l->next)
			n++;
	return n;
}

static void ask(struct reclaim *n, struct thread_link *l, const void *uuid)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_YIELD, .seq = n->seq };

	if (l->pid == n->who || is_stuck(l))
		return;
	n->awaited[n->nawaited++] = l->pid;
	thread_link_send(l, &m, uuid, UUID);
}

void reclaim_take(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size)
{
	const struct task *who = tasks_above(&a->tasks, pid);
	const struct thread_link *own = who ? thread_link_of(who->cuda, pid) : NULL;
	bool good = who && size == HEAD + UUID && m->total == UUID;
	struct reclaim *n = good ? make(a, pid, fd, count_links(a)) : NULL;

	if (!n) {
		gck_info("a request for device memory by pid %d is refused: it is no rank, "
			 "and no descendant of one", (int)pid);
		close(fd);
		return;
	}
	for (size_t i = 0; i < a->tasks.n; i++)
		for (struct thread_link *l = a->tasks.v[i]->cuda; l; l = l->next)
			ask(n, l, m->data);
	n->nasked = n->nawaited;
	if (own && is_stuck(own))
		reclaim_lost(a, pid);
	answer_if_all(n);
}

static void answered(struct reclaim *n, pid_t pid, bool freed)
{
	for (size_t i = 0; i < n->nasked; i++) {
		if (n->awaited[i] != pid)
			continue;
		n->awaited[i] = 0;
		n->nawaited--;
		n->freed += freed;
		answer_if_all(n);
		return;
	}
}

void reclaim_answered(const struct thread_link *l, bool freed)
{
	struct reclaim *n = l->agent->reclaims;

	while (n && n->seq != l->head.seq)
		n = n->next;
	if (n)
		answered(n, l->pid, freed);
}

void reclaim_lost(struct agent *a, pid_t pid)
{
	struct reclaim *next;

	for (struct reclaim *n = a->reclaims; n; n = next) {
		next = n->next;
		answered(n, pid, false);
	}
}
