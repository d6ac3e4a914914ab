/* SPDX-License-Identifier: Apache-2.0
 * Device memory that other ranks free for a rank that found none. */
#include "config.h"

#include "coordinator/agent/checkpoint/reclaim.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

#define HEAD offsetof(struct gck_thread_msg, data)
#define UUID 16

struct reclaim {
	struct reclaim *next;
	struct agent *agent;
	const struct task *who;
	int fd;
	ev_io end;            /* ends when the asking rank closes it */
	uint64_t seq;
	uint32_t freed;
	size_t n, nawaited;
	bool awaited[];       /* by place in agent->tasks, n of them */
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

static struct reclaim *make(struct agent *a, const struct task *who, int fd)
{
	static uint64_t serial;
	struct reclaim *n = calloc(1, sizeof *n + a->tasks.n * sizeof *n->awaited);

	if (!n)
		return NULL;
	n->agent = a;
	n->who = who;
	n->fd = fd;
	n->n = a->tasks.n;
	n->seq = ++serial;
	n->next = a->reclaims;
	a->reclaims = n;
	ev_io_init(&n->end, on_end, fd, EV_READ);
	n->end.data = n;
	ev_io_start(a->loop, &n->end);
	return n;
}

/* Does t wait at its gate for an answer to its own request? It is to be drained and has no
 * copies yet, and two such ranks would wait for each other. */
static bool is_stuck(struct agent *a, const struct task *t)
{
	const struct rank_checkpoint *m = transaction_rank(a, t);
	const struct reclaim *n = a->reclaims;

	while (n && n->who != t)
		n = n->next;
	return n && m && m->gpu == GPU_DRAINS;
}

void reclaim_take(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m, size_t size)
{
	const struct task *who = tasks_by_pid(&a->tasks, pid);
	bool good = who && size == HEAD + UUID && m->total == UUID;
	struct reclaim *n = good ? make(a, who, fd) : NULL;

	if (!n) {
		gck_info("a request for device memory by pid %d is refused: it is not a rank",
			 (int)pid);
		close(fd);
		return;
	}
	for (size_t i = 0; i < n->n; i++) {
		struct task *t = a->tasks.v[i];

		n->awaited[i] = t != who && t->cuda && !is_stuck(a, t);
		n->nawaited += n->awaited[i];
		if (n->awaited[i])
			thread_link_send(t->cuda,
					 &(struct gck_thread_msg){ .type = GCK_LINK_CUDA_YIELD,
					 .seq = n->seq }, m->data, UUID);
	}
	if (is_stuck(a, who))
		reclaim_lost(a, who);
	answer_if_all(n);
}

static void answered(struct reclaim *n, const struct task *t, bool freed)
{
	for (size_t i = 0; i < n->n; i++) {
		if (n->agent->tasks.v[i] != t || !n->awaited[i])
			continue;
		n->awaited[i] = false;
		n->nawaited--;
		n->freed += freed;
		answer_if_all(n);
		return;
	}
}

void reclaim_answered(struct agent *a, const struct task *t, uint64_t seq, bool freed)
{
	struct reclaim *n = a->reclaims;

	while (n && n->seq != seq)
		n = n->next;
	if (n)
		answered(n, t, freed);
}

void reclaim_lost(struct agent *a, const struct task *t)
{
	struct reclaim *next;

	for (struct reclaim *n = a->reclaims; n; n = next) {
		next = n->next;
		answered(n, t, false);
	}
}
