/* SPDX-License-Identifier: Apache-2.0
 * Connections of the ranks' shims. */
#include "config.h"

#include "coordinator/agent/ranks/links.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/ranks/lease.h"
#include "coordinator/agent/ranks/thread_link.h"

/* A shim may connect before the plugin has named its task. */
#define NAMING_LIMIT_S 2.0

#define ASK_SIZE (offsetof(struct gck_link_msg, ask) + sizeof(struct gck_link_ask))

void link_close(struct link *l)
{
	struct link **p = &l->all->first;

	while (*p && *p != l)
		p = &(*p)->next;
	if (*p)
		*p = l->next;
	if (l->task && l->task->link == l) {
		lease_look_at(l->task);
		l->task->link = NULL;
		l->task->shim_state = 0;
	}
	ev_io_stop(l->all->agent->loop, &l->io);
	ev_timer_stop(l->all->agent->loop, &l->limit);
	close(l->fd);
	free(l);
}

int link_tell(struct link *l, enum gck_link_type type, int pid, uint32_t number)
{
	struct gck_link_msg m = { .type = type, .pid = pid, .number = number };

	if (send(l->fd, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -1;
	return 0;
}

static void refuse(struct link *l, const char *why)
{
	gck_info("pid %d is refused: %s", (int)l->pid, why);
	link_tell(l, GCK_LINK_REFUSED, 0, 0);
	link_close(l);
}

static int leave_status(const struct agent *a, const struct task *t)
{
	const json_t *status = json_array_get(a->statuses, t->rank);

	return json_is_integer(status) ? exit_code((int)json_integer_value(status)) : a->failure;
}

/* A helper that connects again belongs to a rank that runs, or was just restored, so it need not
 * wait at the gate. GO names the supervisor, which outlives agents: the rank lets it and its
 * descendants trace it. */
static void answer(struct link *l)
{
	const struct agent *a = l->all->agent;
	enum gate gate = l->hello.reconnect ? GATE_OPEN : a->gate;
	pid_t tracer = l->task->number ? GCK_TRACER_ANY : a->step->supervisor; /* not seen there */

	if (gate == GATE_WAIT || (gate == GATE_HOLD && l->held))
		return;
	l->waiting = gate == GATE_HOLD;
	l->held = gate == GATE_HOLD;
	if (gate == GATE_EXIT)
		link_tell(l, GCK_LINK_EXIT, leave_status(a, l->task), 0);
	else
		link_tell(l, gate == GATE_HOLD ? GCK_LINK_HOLD : GCK_LINK_GO, tracer,
		     l->task->requests.asked[GCK_REQUEST_ALL]);
	if (gate == GATE_OPEN)
		lease_give(l);
}

/* Answers the peer if it is a rank. Otherwise the plugin may still name it. */
static void match_task(struct link *l)
{
	struct agent *a = l->all->agent;
	struct task *t = tasks_by_pid(&a->tasks, l->pid);
	bool moves = !t && (t = tasks_take_apart(&a->tasks, l->pid));

	if (!l->greeted || l->task || !t)
		return;
	ev_timer_stop(a->loop, &l->limit);
	/* The rank's older link is stale: the shim left it behind when the rank executed another
	 * program. */
	if (t->link)
		link_close(t->link);
	l->task = t;
	t->link = l;
	t->lease = (struct task_lease){0};
	t->shim_state = l->hello.state;
	l->waiting = true;
	if (!l->hello.reconnect)
		tasks_begin_requests(&t->requests);
	say_unsaid(&a->tasks);
	answer(l);
	if (moves && l->held)
		l->all->ops->moved(a, t, 0);
}

static void on_limit(struct ev_loop *loop, ev_timer *w, int events)
{
	struct link *l = w->data;

	(void)loop;
	(void)events;
	refuse(l, l->greeted ? "the plugin named no such task" : "it sent no HELLO");
}

static void take_hello(struct link *l, const struct gck_link_msg *m, ssize_t n)
{
	size_t need = offsetof(struct gck_link_msg, hello) + sizeof m->hello;

	if (n < (ssize_t)need || m->type != GCK_LINK_HELLO || l->greeted) {
		refuse(l, "it sent something else than a HELLO");
		return;
	}
	if (m->hello.version != GCK_LINK_VERSION) {
		refuse(l, "its preload library is of another version");
		return;
	}
	l->hello = m->hello;
	l->takes_lease = m->number & GCK_LINK_TAKES_LEASE;
	l->greeted = true;
	match_task(l);
}

/* Passes on the connections of our threads in ranks, and requests for device memory. */
static void hand_on(struct link *l, const struct gck_thread_msg *m, size_t n)
{
	const struct links_ops *ops = l->all->ops;
	struct agent *a = l->all->agent;
	int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	pid_t pid = l->pid;

	link_close(l);
	if (fd >= 0)
		ops->adopt(a, fd, pid, m, n);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct link *l = io->data;
	static union {
		struct gck_link_msg shim;
		struct gck_thread_msg mpi;
	} m;
	ssize_t n = recv(l->fd, &m, sizeof m, MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		link_close(l);
	else if (!l->greeted && n >= (ssize_t)sizeof m.mpi.type &&
		 (m.mpi.type == GCK_LINK_MPI_HELLO || m.mpi.type == GCK_LINK_CUDA_HELLO ||
		  m.mpi.type == GCK_LINK_CUDA_RECLAIM))
		hand_on(l, &m.mpi, (size_t)n);
	else if (l->task && n == (ssize_t)ASK_SIZE && m.shim.type == GCK_LINK_ASK)
		l->all->ops->ask(l->all->agent, l->task, &m.shim.ask);
	else if (l->task && l->held && m.shim.type == GCK_LINK_STAYS)
		l->all->ops->moved(l->all->agent, l->task, -m.shim.pid);
	else
		take_hello(l, &m.shim, n);
}

static void add(struct links *all, int fd, pid_t pid)
{
	struct link *l = calloc(1, sizeof *l);

	if (!l) {
		close(fd);
		return;
	}
	l->all = all;
	l->next = all->first;
	all->first = l;
	l->fd = fd;
	l->pid = pid;
	ev_io_init(&l->io, on_readable, fd, EV_READ);
	l->io.data = l;
	ev_io_start(all->agent->loop, &l->io);
	ev_timer_init(&l->limit, on_limit, NAMING_LIMIT_S, 0.);
	l->limit.data = l;
	ev_timer_start(all->agent->loop, &l->limit);
}

static void on_connection(struct ev_loop *loop, ev_io *io, int events)
{
	struct links *all = io->data;
	struct ucred peer;
	socklen_t len = sizeof peer;
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);

	(void)loop;
	(void)events;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != getuid()) {
		if (!all->foreign)
			gck_warn("a process of user %u connected: refused, as all of other users",
				 peer.uid);
		all->foreign = true;
		close(fd);
		return;
	}
	add(all, fd, peer.pid);
}

struct links *links_start(struct agent *a, const struct links_ops *ops)
{
	struct links *all = calloc(1, sizeof *all);

	if (!all)
		return NULL;
	all->agent = a;
	all->ops = ops;
	ev_io_init(&all->listener, on_connection, GCK_AGENT_LISTEN_FD, EV_READ);
	all->listener.data = all;
	ev_io_start(a->loop, &all->listener);
	return all;
}

void links_stop(struct links *all)
{
	while (all->first)
		link_close(all->first);
	for (size_t i = 0; i < all->agent->tasks.n; i++) {
		struct task *t = all->agent->tasks.v[i];

		if (t->mpi)
			thread_link_close(t->mpi);
		while (t->cuda)
			thread_link_close(t->cuda);
	}
	ev_io_stop(all->agent->loop, &all->listener);
	free(all);
}

void links_task_named(struct links *all)
{
	struct link *next;

	/* match_task() closes another link only if that is of the same task, and a task that was
	 * just named has none. */
	for (struct link *l = all->first; l; l = next) {
		next = l->next;
		match_task(l);
	}
}

void links_answer(struct links *all)
{
	for (struct link *l = all->first; l; l = l->next)
		if (l->task && l->waiting)
			answer(l);
}

void link_dismiss(struct link *l, int status)
{
	l->waiting = false;
	link_tell(l, GCK_LINK_EXIT, status, 0);
}

void link_lend(struct link *l)
{
	l->lent = true;
	ev_io_stop(l->all->agent->loop, &l->io);
}

void link_return(struct task *t, bool clean)
{
	struct link *l = t->link;

	if (!l || !l->lent)
		return;
	l->lent = false;
	if (clean)
		ev_io_start(l->all->agent->loop, &l->io);
	else
		link_close(l);
}
