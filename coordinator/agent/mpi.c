/* SPDX-License-Identifier: Apache-2.0
 * The links of MPI threads: messages in and out. */
#include "config.h"

#include "coordinator/agent/mpi.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/quiesce.h"
#include "coordinator/agent/restart.h"

#define HEAD offsetof(struct gck_link_mpi, data)
#define MESSAGE_MAX (64u << 20)
#define QUEUE_MAX (256u << 20)
#define ITEMS_MAX 64u

struct mpi_packet {
	struct mpi_packet *next;
	size_t size;
	struct gck_link_mpi m;
};

void mpi_close(struct mpi_link *l)
{
	struct mpi_packet *next;

	if (l->task->mpi == l)
		l->task->mpi = NULL;
	ev_io_stop(l->agent->loop, &l->in);
	ev_io_stop(l->agent->loop, &l->out);
	close(l->fd);
	for (struct mpi_packet *p = l->first; p; p = next) {
		next = p->next;
		free(p);
	}
	json_decref(l->items);
	free(l->data);
	free(l);
}

/* It ends by itself: whoever waits for it has to know. */
static void lost(struct mpi_link *l)
{
	struct agent *a = l->agent;
	struct task *t = l->task;

	mpi_close(l);
	quiesce_lost(a, t);
}

/* ---- out ------------------------------------------------------------------------------------ */

static void on_writable(struct ev_loop *loop, ev_io *io, int events)
{
	struct mpi_link *l = io->data;

	(void)events;
	while (l->first) {
		struct mpi_packet *p = l->first;

		if (send(l->fd, &p->m, p->size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break; /* full; or gone, which the reading side finds */
		l->first = p->next;
		l->queued -= p->size;
		free(p);
	}
	if (l->first)
		return;
	l->last = &l->first;
	ev_io_stop(loop, io);
}

static int queue_piece(struct mpi_link *l, const struct gck_link_mpi *m, const void *data, size_t at,
		       size_t n, size_t total)
{
	struct mpi_packet *p = calloc(1, offsetof(struct mpi_packet, m) + HEAD + n);

	if (!p || l->queued > QUEUE_MAX) {
		free(p);
		return -1;
	}
	p->size = HEAD + n;
	memcpy(&p->m, m, HEAD);
	p->m.total = (uint32_t)total;
	p->m.offset = (uint32_t)at;
	if (n)
		memcpy((char *)&p->m + HEAD, (const char *)data + at, n);
	*l->last = p;
	l->last = &p->next;
	l->queued += p->size;
	return 0;
}

void mpi_send(struct mpi_link *l, const struct gck_link_mpi *m, const void *data, size_t size)
{
	size_t at = 0;

	do {
		size_t n = size - at < GCK_LINK_MPI_PIECE ? size - at : GCK_LINK_MPI_PIECE;

		if (queue_piece(l, m, data, at, n, size)) {
			gck_warn("rank %u: its MPI thread does not listen", l->task->rank);
			shutdown(l->fd, SHUT_RDWR);
			return;
		}
		at += n;
	} while (at < size);
	on_writable(l->agent->loop, &l->out, 0);
	if (l->first)
		ev_io_start(l->agent->loop, &l->out);
}

/* ---- in ------------------------------------------------------------------------------------- */

/* Three strings, each with its NUL. */
static void take_item(struct mpi_link *l)
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
			packet_string(text[2]), "refuse", 1));
}

/* A rank whose MPI is not back yet, or could not be brought back, says `restored` in every HELLO. */
static void take_hello(struct mpi_link *l)
{
	if (l->head.total != sizeof l->hello) {
		gck_warn("rank %u: its MPI thread is of another release", l->task->rank);
		lost(l);
		return;
	}
	memcpy(&l->hello, l->data, sizeof l->hello);
	l->task->in_mpi = !l->hello.outside && l->hello.size != 1;
	if (!l->hello.restored)
		restart_rebuilt(l->agent, l->task, NULL);
}

/* A message's text, if it has one; it need not end. */
static void take_failure(const struct mpi_link *l, struct gck_error *err)
{
	gck_fail(err, (int)l->head.value, "%.*s", (int)(l->head.total < 400 ? l->head.total : 400),
		 (const char *)l->data);
}

/* What l points at may be gone afterwards. */
static void take_message(struct mpi_link *l)
{
	struct gck_error err = { 0 };

	if (l->head.value)
		take_failure(l, &err);
	switch (l->head.type) {
	case GCK_LINK_MPI_HELLO:
		take_hello(l);
		break;
	case GCK_LINK_MPI_READY:
		quiesce_ready(l->agent, l->task, &l->head, l->data);
		break;
	case GCK_LINK_MPI_QUIESCED:
		quiesce_answered(l->agent, l->task, l->head.seq, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_ITEM:
		take_item(l);
		break;
	case GCK_LINK_MPI_LOOKED:
		l->looked = true;
		break;
	case GCK_LINK_MPI_REBUILT:
		restart_rebuilt(l->agent, l->task, l->head.value ? &err : NULL);
		break;
	case GCK_LINK_MPI_BYE:
		lost(l);
		break;
	default:
		gck_warn("rank %u: its MPI thread said what is not known", l->task->rank);
		lost(l);
	}
}

static int take_piece(struct mpi_link *l, const struct gck_link_mpi *m, size_t n)
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

static void take_packet(struct mpi_link *l, const struct gck_link_mpi *m, size_t size)
{
	struct agent *a = l->agent;
	struct task *t = l->task;

	if (size < HEAD || take_piece(l, m, size - HEAD)) {
		gck_warn("rank %u: its MPI thread broke the rules of its link", t->rank);
		lost(l);
		return;
	}
	if (l->have < l->head.total)
		return;
	take_message(l);
	(void)a;
	if (t->mpi == l) {
		free(l->data);
		l->data = NULL;
	}
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct mpi_link *l = io->data;
	static struct gck_link_mpi m;
	ssize_t n = recv(l->fd, &m, sizeof m, MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		lost(l);
	else
		take_packet(l, &m, (size_t)n);
}

/* ---- who ------------------------------------------------------------------------------------ */

static struct mpi_link *make(struct agent *a, int fd, struct task *t)
{
	struct mpi_link *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->agent = a;
	l->task = t;
	l->fd = fd;
	l->last = &l->first;
	l->items = json_array();
	ev_io_init(&l->in, on_readable, fd, EV_READ);
	ev_io_init(&l->out, on_writable, fd, EV_WRITE);
	l->in.data = l->out.data = l;
	return l;
}

void mpi_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size)
{
	struct task *t = tasks_by_pid(&a->tasks, pid);
	struct mpi_link *l = t ? make(a, fd, t) : NULL;

	if (!l) {
		gck_info("the MPI thread of pid %d is not taken: it is no rank", (int)pid);
		close(fd);
		return;
	}
	if (t->mpi)
		lost(t->mpi);
	t->mpi = l;
	ev_io_start(a->loop, &l->in);
	take_packet(l, m, size);
}

unsigned mpi_count(const struct agent *a, bool *pmix)
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

void mpi_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		struct mpi_link *l = a->tasks.v[i]->mpi;

		if (!l)
			continue;
		l->looked = false;
		json_array_clear(l->items);
		mpi_send(l, &(struct gck_link_mpi){ .type = GCK_LINK_MPI_LOOK }, NULL, 0);
	}
}

bool mpi_looked(const struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->mpi && !a->tasks.v[i]->ended && !a->tasks.v[i]->mpi->looked)
			return false;
	return true;
}
