/* SPDX-License-Identifier: Apache-2.0
 * Many messages at once, in flight over several steps; some are received long after the send. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

struct tr_late {
	struct tr_late *next;
	struct tr_message m;
	struct tr_type type; /* a duplicate of m's: the plan may free the original */
	int step, kind;
	MPI_Message message; /* already matched, kind LATE_MATCHED */
};

enum { LATE_IRECV, LATE_RECV, LATE_PROBE, LATE_MPROBE, LATE_MATCHED, LATE_KINDS };

void tr_late_add(struct tr_run *r, const struct tr_message *m, int step, int kind)
{
	struct tr_late *l = calloc(1, sizeof(*l)), **link = &r->late;

	if (!l)
		abort();
	l->m = *m;
	l->type = *m->t;
	l->type.at = malloc(((size_t)m->t->size + 1) * sizeof(int));
	if (!l->type.at)
		abort();
	memcpy(l->type.at, m->t->at, (size_t)m->t->size * sizeof(int));
	MPI_Type_dup(m->t->type, &l->type.type);
	l->m.t = &l->type;
	l->step = step;
	l->kind = kind;
	if (kind == LATE_MATCHED)
		MPI_Mprobe(m->src, m->tag, m->c->comm, &l->message, MPI_STATUS_IGNORE);
	while (*link)
		link = &(*link)->next;
	*link = l;
}

/* For a message that is sent, before the step waits. */
static void late_receive(struct tr_run *r, struct tr_late *l)
{
	const struct tr_message *m = &l->m;
	struct tr_transfer *x = tr_message_receive(m, "a message received late");
	MPI_Status st;

	switch (l->kind) {
	case LATE_IRECV:
		MPI_Irecv(x->recv->at, m->count, m->t->type, m->src, m->tag, m->c->comm, &x->req);
		break;
	case LATE_MPROBE:
		MPI_Mprobe(m->src, m->tag, m->c->comm, &l->message, MPI_STATUS_IGNORE);
		__attribute__((fallthrough));
	case LATE_MATCHED:
		MPI_Imrecv(x->recv->at, m->count, m->t->type, &l->message, &x->req);
		break;
	case LATE_PROBE:
		MPI_Probe(m->src, m->tag, m->c->comm, &st);
		__attribute__((fallthrough));
	default:
		MPI_Recv(x->recv->at, m->count, m->t->type, m->src, m->tag, m->c->comm, &st);
		tr_transfer_end(r, x, &st);
		return;
	}
	tr_transfer_defer(r, x, r->step);
}

void tr_late_post(struct tr_run *r, const struct tr_comm *comm, bool all)
{
	struct tr_late **link = &r->late, *l;

	while ((l = *link)) {
		if (all ? comm && l->m.c != comm : l->step > r->step) {
			link = &l->next;
			continue;
		}
		*link = l->next;
		late_receive(r, l);
		MPI_Type_free(&l->type.type);
		free(l->type.at);
		free(l);
	}
}

/* ---- the storm */

static void start_send(struct tr_run *r, const struct tr_message *m, int mode, int due)
{
	typedef int starting(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	static starting *const start[] = {MPI_Isend,  MPI_Issend,    MPI_Isend,
					  MPI_Ibsend, MPI_Send_init, MPI_Ssend_init};
	struct tr_transfer *x = tr_transfer_new(m->c, "a send");

	x->send = tr_message_data(m);
	start[mode](x->send->at, m->count, m->t->type, m->dst, m->tag, m->c->comm, &x->req);
	if (mode >= 4) {
		x->persistent = true;
		MPI_Start(&x->req);
	}
	tr_transfer_defer(r, x, due);
}

struct storm {
	struct tr_comm *c;
	int n, due;
	bool late, same_tag, any_tag;
	struct tr_message m[24];
	int mode[24], kind[24];
};

static void draw(struct tr_run *r, struct storm *s)
{
	s->c = tr_comm_draw(r);
	s->n = tr_between(&r->plan, 2, 24);
	s->late = tr_chance(&r->plan, 35);
	/* the late receives of this step are posted */
	s->due = r->step + tr_between(&r->plan, s->late, TR_AHEAD - 1);
	s->same_tag = tr_chance(&r->plan, 35);
	/* with late messages in flight, MPI_ANY_TAG could take those */
	s->any_tag = !s->late && r->step > s->c->late_until && tr_chance(&r->plan, 30);
	for (int i = 0; i < s->n; i++) {
		tr_message_draw(r, s->c, i, &s->m[i]);
		if (s->same_tag)
			s->m[i].tag = s->m[0].tag;
		s->mode[i] = tr_below(&r->plan, 6);
		s->kind[i] = tr_below(&r->plan, LATE_KINDS);
		/* one is matched at once, before earlier messages with its tag are received */
		if (s->same_tag && s->kind[i] == LATE_MATCHED)
			s->kind[i] = LATE_IRECV;
	}
	if (s->late && s->c->late_until < s->due)
		s->c->late_until = s->due;
}

/* Receives in the order of the messages, so that the i-th of a source gets its i-th message. */
static void start_receive(struct tr_run *r, const struct storm *s, int i)
{
	const struct tr_message *m = &s->m[i];
	struct tr_transfer *x = tr_message_receive(m, "a message of a storm");
	int tag = s->any_tag && tr_chance(&r->mine, 60) ? MPI_ANY_TAG : m->tag;

	if (tr_chance(&r->mine, 20)) {
		MPI_Recv_init(x->recv->at, m->count, m->t->type, m->src, tag, m->c->comm, &x->req);
		MPI_Start(&x->req);
		x->persistent = true;
	} else {
		MPI_Irecv(x->recv->at, m->count, m->t->type, m->src, tag, m->c->comm, &x->req);
	}
	tr_transfer_defer(r, x, s->due);
}

void tr_storm(struct tr_run *r)
{
	struct storm s;

	draw(r, &s);
	if (s.c->rank < 0)
		return;
	for (int i = 0; i < s.n && !s.late; i++)
		if (tr_message_receiver(&s.m[i]))
			start_receive(r, &s, i);
	for (int i = 0; i < s.n; i++)
		if (tr_message_sender(&s.m[i]))
			start_send(r, &s.m[i], s.mode[i], s.due);
	for (int i = 0; i < s.n && s.late; i++)
		if (tr_message_receiver(&s.m[i]))
			tr_late_add(r, &s.m[i], s.due, s.kind[i]);
}
