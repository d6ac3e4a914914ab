/* SPDX-License-Identifier: Apache-2.0
 * Messages one after another, in each mode of sending and receiving. Both ranks of a message
 * complete it before they go on, so any order of messages is free of deadlock. */
#include "traffic.h"

#include <stdlib.h>

enum send_mode { SEND, SSEND, BSEND, RSEND, ISEND, ISSEND, IBSEND, IRSEND, SEND_INIT, SSEND_INIT,
	BSEND_INIT, RSEND_INIT, SEND_MODES };
enum recv_mode {
	RECV,
	IRECV,
	RECV_INIT,
	PROBE,
	IPROBE,
	MPROBE,
	IMPROBE,
	MPROBE_IMRECV,
	RECV_MODES
};

void tr_message_draw(struct tr_run *r, struct tr_comm *c, int number, struct tr_message *m)
{
	m->c = c;
	m->side = c->inter ? tr_below(&r->plan, 2) : 0;
	m->src = tr_below(&r->plan, c->g[m->side].n);
	m->dst = tr_below(&r->plan, tr_peers(c, m->side)->n);
	m->t = tr_type_draw(r);
	m->count = tr_count_draw(r, m->t);
	/* unique while messages of TR_AHEAD steps may be in flight; 32767 is the least TAG_UB */
	m->tag = r->step % 500 * 64 + number;
	m->key = tr_key(r, number, 0);
}

bool tr_message_sender(const struct tr_message *m)
{
	return m->c->rank == m->src && m->c->side == m->side;
}

bool tr_message_receiver(const struct tr_message *m)
{
	return m->c->rank == m->dst && m->c->side == (m->c->inter ? !m->side : 0);
}

struct tr_buffer *tr_message_data(const struct tr_message *m)
{
	struct tr_buffer *b = tr_buffer_new(m->t, m->count);

	tr_buffer_fill(b, m->t, 0, m->count, m->key);
	return b;
}

/* The receiver's transfer; a message may be shorter than the buffer. */
struct tr_transfer *tr_message_receive(const struct tr_message *m, const char *what)
{
	struct tr_transfer *x = tr_transfer_new(m->c, what);

	x->recv = tr_buffer_new(m->t, m->count);
	x->want = tr_message_data(m);
	x->source = m->src;
	x->tag = m->tag;
	x->bytes = m->count * m->t->size;
	return x;
}

/* ---- sending */

static void request_end(MPI_Request *req, bool persistent)
{
	if (persistent)
		MPI_Start(req);
	MPI_Wait(req, MPI_STATUS_IGNORE);
	if (persistent)
		MPI_Request_free(req);
}

static void send_it(const struct tr_message *m, enum send_mode mode, const void *at)
{
	typedef int blocking(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	typedef int starting(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	static blocking *const block[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
	static starting *const start[] = {MPI_Isend,      MPI_Issend,    MPI_Ibsend,
					  MPI_Irsend,     MPI_Send_init, MPI_Ssend_init,
					  MPI_Bsend_init, MPI_Rsend_init};
	MPI_Request req;

	if (mode < ISEND) {
		block[mode](at, m->count, m->t->type, m->dst, m->tag, m->c->comm);
		return;
	}
	start[mode - ISEND](at, m->count, m->t->type, m->dst, m->tag, m->c->comm, &req);
	request_end(&req, mode >= SEND_INIT);
}

static bool ready_mode(enum send_mode mode)
{
	return mode == RSEND || mode == IRSEND || mode == RSEND_INIT;
}

/* ---- receiving */

static void check_probed(struct tr_run *r, const struct tr_message *m, const MPI_Status *st)
{
	int count;

	MPI_Get_count(st, m->t->type, &count);
	tr_need(r, st->MPI_SOURCE == m->src && st->MPI_TAG == m->tag && count == m->count,
		"a probe says source %d tag %d count %d, expected source %d tag %d count %d",
		st->MPI_SOURCE, st->MPI_TAG, count, m->src, m->tag, m->count);
}

static void probed(struct tr_run *r, const struct tr_message *m, enum recv_mode mode,
	struct tr_transfer *x, MPI_Status *st)
{
	int source = tr_chance(&r->mine, 30) ? MPI_ANY_SOURCE : m->src, flag = 0;
	MPI_Message message = MPI_MESSAGE_NULL;

	switch (mode) {
	case PROBE:
		MPI_Probe(source, m->tag, m->c->comm, st);
		break;
	case IPROBE:
		while (!flag)
			MPI_Iprobe(source, m->tag, m->c->comm, &flag, st);
		break;
	case IMPROBE:
		while (!flag)
			MPI_Improbe(source, m->tag, m->c->comm, &flag, &message, st);
		break;
	default:
		MPI_Mprobe(source, m->tag, m->c->comm, &message, st);
	}
	check_probed(r, m, st);
	if (mode == PROBE || mode == IPROBE) {
		MPI_Recv(x->recv->at, m->count, m->t->type, m->src, m->tag, m->c->comm, st);
	} else if (mode == MPROBE_IMRECV) {
		MPI_Imrecv(x->recv->at, m->count, m->t->type, &message, &x->req);
		MPI_Wait(&x->req, st);
	} else {
		MPI_Mrecv(x->recv->at, m->count, m->t->type, &message, st);
	}
	tr_need(r, message == MPI_MESSAGE_NULL,
		"a matched message is still there after its receive");
}

static void receive(struct tr_run *r, const struct tr_message *m, enum recv_mode mode)
{
	struct tr_transfer *x = tr_message_receive(m, "a message");
	int source = tr_chance(&r->mine, 30) ? MPI_ANY_SOURCE : m->src;
	MPI_Status st;

	if (mode == RECV) {
		MPI_Recv(x->recv->at, m->count, m->t->type, source, m->tag, m->c->comm, &st);
	} else if (mode == IRECV) {
		MPI_Irecv(x->recv->at, m->count, m->t->type, source, m->tag, m->c->comm, &x->req);
		MPI_Wait(&x->req, &st);
	} else if (mode == RECV_INIT) {
		MPI_Recv_init(x->recv->at, m->count, m->t->type, source, m->tag, m->c->comm,
			      &x->req);
		MPI_Start(&x->req);
		MPI_Wait(&x->req, &st);
		MPI_Request_free(&x->req);
	} else {
		probed(r, m, mode, x, &st);
	}
	tr_transfer_end(r, x, &st);
}

/* Messages whose receive is posted first: those to the rank itself, and those in ready mode, for
 * which the receiver sends a signal. */
static void posted_first(struct tr_run *r, const struct tr_message *m, enum send_mode mode)
{
	bool receiver = tr_message_receiver(m), sender = tr_message_sender(m);
	struct tr_transfer *x = receiver ? tr_message_receive(m, "a message to oneself or ready")
					 : NULL;
	struct tr_buffer *data = sender ? tr_message_data(m) : NULL;

	if (receiver)
		MPI_Irecv(x->recv->at, m->count, m->t->type, m->src, m->tag, m->c->comm, &x->req);
	if (ready_mode(mode) && receiver != sender) {
		if (receiver)
			MPI_Send(NULL, 0, MPI_BYTE, m->src, m->tag, m->c->comm);
		else
			MPI_Recv(NULL, 0, MPI_BYTE, m->dst, m->tag, m->c->comm, MPI_STATUS_IGNORE);
	}
	if (sender)
		send_it(m, mode, data->at);
	if (receiver)
		tr_transfer_wait(r, x);
	tr_buffer_free(data);
}

static void message(struct tr_run *r, struct tr_comm *c, int number)
{
	struct tr_message m;
	enum send_mode send;
	enum recv_mode recv;

	tr_message_draw(r, c, number, &m);
	send = tr_below(&r->plan, SEND_MODES);
	recv = tr_below(&r->plan, RECV_MODES);
	if (c->rank < 0)
		return;
	bool self = !c->inter && m.src == m.dst;

	if (!tr_message_sender(&m) && !tr_message_receiver(&m))
		return;
	if (self || ready_mode(send)) {
		posted_first(r, &m, send);
	} else if (tr_message_sender(&m)) {
		struct tr_buffer *data = tr_message_data(&m);

		send_it(&m, send, data->at);
		tr_buffer_free(data);
	} else {
		receive(r, &m, recv);
	}
}

/* A receive without a message is cancelled. */
static void cancel(struct tr_run *r, struct tr_comm *c)
{
	struct tr_transfer *x;

	if (c->rank < 0)
		return;
	x = tr_transfer_new(c, "a receive that is cancelled");
	x->cancelled = true;
	x->recv = tr_buffer_new(&r->types[0], 4);
	x->want = tr_buffer_new(&r->types[0], 4);
	MPI_Irecv(x->recv->at, 4, r->types[0].type, tr_chance(&r->mine, 50) ? MPI_ANY_SOURCE : 0,
		  32001, c->comm, &x->req);
	MPI_Cancel(&x->req);
	tr_transfer_wait(r, x);
}

void tr_p2p(struct tr_run *r)
{
	struct tr_comm *c = tr_comm_draw(r);
	int n = tr_between(&r->plan, 1, 8);
	bool with_cancel = tr_chance(&r->plan, 15);

	for (int i = 0; i < n; i++)
		message(r, c, i);
	if (with_cancel)
		cancel(r, c);
}
