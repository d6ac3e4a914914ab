/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/agent/checkpoint/reclaim.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/ranks/thread_link.h"

#define HEAD offsetof(struct gck_link_mpi, data)
#define UUID 16

struct need {
	struct need *next;
	struct agent *agent;
	const struct task *who;
	int fd;
	ev_io end;            /* who asked waits no longer */
	uint64_t seq;
	uint32_t given;
	size_t n, nawaited;
	bool awaited[];       /* n of agent->tasks, by place */
};

static void drop(struct need *n)
{
	struct need **p = &n->agent->needs;

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	ev_io_stop(n->agent->loop, &n->end);
	close(n->fd);
	free(n);
}

static void answer_if_all(struct need *n)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_GIVEN, .round = n->given };

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

static struct need *make(struct agent *a, const struct task *who, int fd)
{
	static uint64_t serial;
	struct need *n = calloc(1, sizeof *n + a->tasks.n * sizeof *n->awaited);

	if (!n)
		return NULL;
	n->agent = a;
	n->who = who;
	n->fd = fd;
	n->n = a->tasks.n;
	n->seq = ++serial;
	n->next = a->needs;
	a->needs = n;
	ev_io_init(&n->end, on_end, fd, EV_READ);
	n->end.data = n;
	ev_io_start(a->loop, &n->end);
	return n;
}

/* It is to be drained, and its gate does not shut before a need of its own has an answer: it has kept nothing yet,
 * and two such ranks would wait for each other. */
static bool is_stuck(struct agent *a, const struct task *t)
{
	const struct member *m = transaction_member(a, t);
	const struct need *n = a->needs;

	while (n && n->who != t)
		n = n->next;
	return n && m && m->cuda == CUDA_DRAINS;
}

void needs_take(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size)
{
	const struct task *who = tasks_by_pid(&a->tasks, pid);
	bool good = who && size == HEAD + UUID && m->total == UUID;
	struct need *n = good ? make(a, who, fd) : NULL;

	if (!n) {
		gck_info("a need of device memory of pid %d is not heard: it is no rank's", (int)pid);
		close(fd);
		return;
	}
	for (size_t i = 0; i < n->n; i++) {
		struct task *t = a->tasks.v[i];

		n->awaited[i] = t != who && t->cuda && !is_stuck(a, t);
		n->nawaited += n->awaited[i];
		if (n->awaited[i])
			thread_link_send(t->cuda, &(struct gck_link_mpi){ .type = GCK_LINK_CUDA_YIELD,
					 .seq = n->seq }, m->data, UUID);
	}
	if (is_stuck(a, who))
		needs_lost(a, who);
	answer_if_all(n);
}

static void answered(struct need *n, const struct task *t, bool given)
{
	for (size_t i = 0; i < n->n; i++) {
		if (n->agent->tasks.v[i] != t || !n->awaited[i])
			continue;
		n->awaited[i] = false;
		n->nawaited--;
		n->given += given;
		answer_if_all(n);
		return;
	}
}

void needs_answered(struct agent *a, const struct task *t, uint64_t seq, bool given)
{
	struct need *n = a->needs;

	while (n && n->seq != seq)
		n = n->next;
	if (n)
		answered(n, t, given);
}

void needs_lost(struct agent *a, const struct task *t)
{
	struct need *next;

	for (struct need *n = a->needs; n; n = next) {
		next = n->next;
		answered(n, t, false);
	}
}
