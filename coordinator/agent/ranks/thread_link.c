/* SPDX-License-Identifier: Apache-2.0
 * Links of our threads in ranks: packets in and out, messages assembled. */
#include "config.h"

#include "coordinator/agent/ranks/thread_link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd_passing.h"
#include "common/base/log.h"
#include "coordinator/agent/base/packet.h"
#include "shim/process/gpu/gpu.h"
#include "shim/process/process.h"

#define HEAD offsetof(struct gck_thread_msg, data)
#define MESSAGE_MAX (64u << 20)
#define QUEUE_MAX (256u << 20)
#define ITEMS_MAX 64u

struct thread_packet {
	struct thread_packet *next;
	size_t size;
	int fds[GCK_LINK_DATA_FDS]; /* sent along; -1: none */
	unsigned char bytes[];      /* a thread message, cut to size */
};

static void packet_free(struct thread_packet *p)
{
	if (p)
		gck_device_channel_drop(p->fds);
	free(p);
}

static void leave_list(struct thread_link *l)
{
	struct thread_link **at = l->slot;

	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
}

void thread_link_close(struct thread_link *l)
{
	struct thread_packet *next;

	leave_list(l);
	ev_io_stop(l->agent->loop, &l->in);
	ev_io_stop(l->agent->loop, &l->out);
	close(l->fd);
	for (struct thread_packet *p = l->first; p; p = next) {
		next = p->next;
		packet_free(p);
	}
	json_decref(l->items);
	free(l->data);
	free(l);
}

void thread_link_lost(struct thread_link *l)
{
	leave_list(l);
	l->kind->lost(l);
	thread_link_close(l);
}

struct thread_link *thread_link_of(struct thread_link *first, pid_t pid)
{
	while (first && first->pid != pid)
		first = first->next;
	return first;
}

pid_t thread_link_number(const struct thread_link *l)
{
	return task_beside(l->task) ? l->number : l->pid;
}

/* ---- sending ------------------------------------------------------------------------------- */

static ssize_t send_packet(int fd, const struct thread_packet *p)
{
	size_t n = p->fds[0] < 0 ? 0 : sizeof p->fds / sizeof *p->fds;

	return gck_fd_send(fd, p->bytes, p->size, p->fds, n, MSG_DONTWAIT);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int events)
{
	struct thread_link *l = io->data;

	(void)events;
	while (l->first) {
		struct thread_packet *p = l->first;

		if (send_packet(l->fd, p) < 0)
			break; /* full; or gone, which the reading side finds */
		l->first = p->next;
		l->queued -= p->size;
		packet_free(p);
	}
	if (l->first)
		return;
	l->last = &l->first;
	ev_io_stop(loop, io);
}

static struct thread_packet *queue_piece(struct thread_link *l, const struct gck_thread_msg *m,
					 const void *data, size_t at, size_t n, size_t total)
{
	struct thread_packet *p = calloc(1, sizeof *p + HEAD + n);
	struct gck_thread_msg head;

	if (!p || l->queued > QUEUE_MAX) {
		free(p);
		return NULL;
	}
	p->fds[0] = p->fds[1] = -1;
	p->size = HEAD + n;
	memcpy(&head, m, HEAD);
	head.total = (uint32_t)total;
	head.offset = (uint32_t)at;
	memcpy(p->bytes, &head, HEAD);
	if (n)
		memcpy(p->bytes + HEAD, (const char *)data + at, n);
	*l->last = p;
	l->last = &p->next;
	l->queued += p->size;
	return p;
}

static void send_queued(struct thread_link *l)
{
	on_writable(l->agent->loop, &l->out, 0);
	if (l->first)
		ev_io_start(l->agent->loop, &l->out);
}

static void give_up(struct thread_link *l)
{
	gck_warn("rank %u: its %s thread does not read its messages", l->task->rank, l->kind->name);
	shutdown(l->fd, SHUT_RDWR);
}

void thread_link_send(struct thread_link *l, const struct gck_thread_msg *m, const void *data,
		      size_t size)
{
	size_t at = 0;

	do {
		size_t n = size - at < GCK_THREAD_MSG_DATA ? size - at : GCK_THREAD_MSG_DATA;

		if (!queue_piece(l, m, data, at, n, size)) {
			give_up(l);
			return;
		}
		at += n;
	} while (at < size);
	send_queued(l);
}

void thread_link_give(struct thread_link *l, const struct gck_thread_msg *m,
		      int fds[GCK_LINK_DATA_FDS])
{
	struct thread_packet *p = queue_piece(l, m, NULL, 0, 0, 0);

	if (!p) {
		gck_device_channel_drop(fds);
		give_up(l);
		return;
	}
	for (int i = 0; i < GCK_LINK_DATA_FDS; i++) {
		p->fds[i] = fds[i];
		fds[i] = -1;
	}
	send_queued(l);
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Three strings, each with its NUL. */
void thread_link_item(struct thread_link *l)
{
	const char *text[3], *at = (const char *)l->data, *end = at + l->head.total;

	for (int i = 0; i < 3; i++) {
		const char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

		if (!nul)
			return;
		text[i] = at;
		at = nul + 1;
	}
	if (json_array_size(l->items) < ITEMS_MAX)
		json_array_append_new(l->items, json_pack("{s:o, s:o, s:o, s:b}", "object",
			packet_string(text[0]), "reason", packet_string(text[1]), "remedy",
			packet_string(text[2]), "refuse", !l->head.round));
}

/* The text, if there is one, may lack a NUL. */
void thread_link_failure(const struct thread_link *l, struct gck_error *err)
{
	gck_fail(err, (int)l->head.value, "%.*s", (int)(l->head.total < 400 ? l->head.total : 400),
		 (const char *)l->data);
}

static int take_piece(struct thread_link *l, const struct gck_thread_msg *m, size_t n)
{
	if (!l->data) {
		if (m->offset || m->total > MESSAGE_MAX)
			return -1;
		l->data = calloc(1, m->total + sizeof(uint64_t));
		l->have = 0;
		memcpy(&l->head, m, HEAD);
	}
	if (!l->data || m->type != l->head.type || m->total != l->head.total ||
	    m->offset != l->have || n > m->total - l->have || (!n && m->total))
		return -1;
	memcpy(l->data + l->have, m->data, n);
	l->have += n;
	return 0;
}

static bool is_open(const struct thread_link *first, const struct thread_link *l)
{
	while (first && first != l)
		first = first->next;
	return first;
}

static void take_packet(struct thread_link *l, const struct gck_thread_msg *m, size_t size)
{
	struct thread_link **slot = l->slot;

	if (size < HEAD || take_piece(l, m, size - HEAD)) {
		gck_warn("rank %u: its %s thread sent an invalid packet", l->task->rank,
			 l->kind->name);
		thread_link_lost(l);
		return;
	}
	if (l->have < l->head.total)
		return;
	l->kind->take(l);
	if (is_open(*slot, l)) {
		free(l->data);
		l->data = NULL;
	}
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct thread_link *l = io->data;
	static struct gck_thread_msg m;
	ssize_t n = recv(l->fd, &m, sizeof m, MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		thread_link_lost(l);
	else
		take_packet(l, &m, (size_t)n);
}

/* ---- new links ----------------------------------------------------------------------------- */

static struct thread_link *make(struct agent *a, int fd, pid_t pid, struct task *t,
				const struct thread_kind *kind)
{
	struct thread_link *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->agent = a;
	l->pid = pid;
	l->task = t;
	l->kind = kind;
	l->slot = kind->slot(t);
	l->fd = fd;
	l->last = &l->first;
	l->items = json_array();
	ev_io_init(&l->in, on_readable, fd, EV_READ);
	ev_io_init(&l->out, on_writable, fd, EV_WRITE);
	l->in.data = l->out.data = l;
	return l;
}

/* Close the older link of a process, and those of processes that have ended, which a child may hold
 * open. */
static void close_old(struct thread_link **list, pid_t pid)
{
	struct thread_link *l = *list;

	while (l) {
		struct thread_link *next = l->next;

		if (l->pid == pid || gck_process_ended(l->pid))
			thread_link_lost(l);
		l = next;
	}
}

void thread_link_adopt(struct agent *a, int fd, pid_t pid, const struct thread_kind *kind,
		       const struct gck_thread_msg *m, size_t size)
{
	struct task *t = tasks_above(&a->tasks, pid);
	struct thread_link *l = NULL;

	if (t)
		close_old(kind->slot(t), pid);
	if (t && !(kind->single && *kind->slot(t)))
		l = make(a, fd, pid, t, kind);
	if (!l) {
		gck_info("the %s thread of pid %d is refused: %s", kind->name, (int)pid,
			 t ? "another process of the rank has one"
			   : "it is no rank, and no descendant of one");
		close(fd);
		return;
	}
	l->next = *l->slot;
	*l->slot = l;
	ev_io_start(a->loop, &l->in);
	take_packet(l, m, size);
}

/* ---- obstacles ----------------------------------------------------------------------------- */

static void look(struct thread_link *l, uint32_t type)
{
	l->looked = false;
	l->queued_ms = 0;
	json_array_clear(l->items);
	thread_link_send(l, &(struct gck_thread_msg){ .type = type }, NULL, 0);
}

void thread_links_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		if (a->tasks.v[i]->mpi)
			look(a->tasks.v[i]->mpi, GCK_LINK_MPI_LIST_OBSTACLES);
		for (struct thread_link *l = a->tasks.v[i]->cuda; l; l = l->next)
			look(l, GCK_LINK_CUDA_LIST_OBSTACLES);
	}
}

bool thread_links_looked(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		const struct task *t = a->tasks.v[i];
		const struct thread_link *l = t->cuda;

		while (l && l->looked)
			l = l->next;
		if (!t->ended && ((t->mpi && !t->mpi->looked) || l))
			return false;
	}
	return true;
}

bool thread_link_in_init(const struct task *t)
{
	return !t->ended && t->mpi && !t->mpi->hello.restored && !t->mpi->hello.mpi_inactive &&
	       !t->mpi->hello.size;
}

unsigned thread_links_mpi(const struct agent *a, bool *pmix)
{
	unsigned n = 0;

	*pmix = true;
	for (size_t i = 0; i < a->tasks.n; i++) {
		const struct task *t = a->tasks.v[i];

		if (t->ended || !t->mpi)
			continue;
		n++;
		if (!t->mpi->hello.pmix || t->mpi->hello.size != a->step->ntasks)
			*pmix = false;
	}
	return n;
}
