/* SPDX-License-Identifier: Apache-2.0
 * The pending transfers of this rank: requests with their expected results, and the ways to
 * complete them. */
#include "traffic.h"

#include <stdlib.h>

struct tr_transfer *tr_transfer_new(const struct tr_comm *c, const char *what)
{
	struct tr_transfer *x = calloc(1, sizeof(*x));

	if (!x)
		abort();
	x->what = what;
	x->comm = c;
	x->req = MPI_REQUEST_NULL;
	x->source = MPI_ANY_SOURCE;
	return x;
}

static void check_status(struct tr_run *r, const struct tr_transfer *x, const MPI_Status *st)
{
	int bytes, flag;

	if (x->source == MPI_ANY_SOURCE && !x->cancelled)
		return;
	MPI_Test_cancelled(st, &flag);
	tr_need(r, flag == x->cancelled, "%s: cancelled is %d, expected %d", x->what, flag,
		x->cancelled);
	if (flag)
		return;
	/* in bytes, because the type may be freed */
	MPI_Get_count(st, MPI_BYTE, &bytes);
	tr_need(r, st->MPI_SOURCE == x->source && st->MPI_TAG == x->tag && bytes == x->bytes,
		"%s: status says source %d tag %d, %d bytes, expected source %d tag %d, %d bytes",
		x->what, st->MPI_SOURCE, st->MPI_TAG, bytes, x->source, x->tag, x->bytes);
}

void tr_transfer_end(struct tr_run *r, struct tr_transfer *x, const MPI_Status *st)
{
	if (st)
		check_status(r, x, st);
	if (x->want)
		tr_buffer_check(r, x->what, x->recv, x->want);
	if (x->persistent)
		MPI_Request_free(&x->req);
	tr_need(r, x->req == MPI_REQUEST_NULL, "%s: the request is still there after its end",
		x->what);
	tr_buffer_free(x->send);
	tr_buffer_free(x->recv);
	tr_buffer_free(x->want);
	for (size_t i = 0; i < sizeof(x->keep) / sizeof(x->keep[0]); i++)
		free(x->keep[i]);
	free(x);
}

/* ---- waiting for one */

static void wait_one(struct tr_run *r, MPI_Request *req, MPI_Status *st)
{
	int flag = 0, index;

	switch (tr_below(&r->mine, 5)) {
	case 0:
		MPI_Wait(req, st);
		break;
	case 1:
		while (!flag)
			MPI_Test(req, &flag, st);
		break;
	case 2:
		MPI_Waitall(1, req, st);
		break;
	case 3:
		MPI_Waitany(1, req, &index, st);
		tr_equal(r, "Waitany's index", index, 0);
		break;
	default:
		while (!flag)
			MPI_Request_get_status(*req, &flag, st);
		MPI_Wait(req, st);
	}
}

void tr_transfer_wait(struct tr_run *r, struct tr_transfer *x)
{
	MPI_Status st;

	wait_one(r, &x->req, &st);
	tr_transfer_end(r, x, &st);
}

/* ---- waiting for many: req[i] is x[i]'s request; each x[i] ends once */

struct set {
	int n;
	MPI_Request *req;
	MPI_Status *st;
	struct tr_transfer **x;
	int *index;
};

static void set_end(struct tr_run *r, struct set *s, int i, const MPI_Status *st)
{
	tr_need(r, i >= 0 && i < s->n && s->x[i], "index %d of %d requests has ended twice", i,
		s->n);
	s->x[i]->req = s->req[i];
	/* otherwise an inactive persistent request would be waited for without end */
	s->req[i] = MPI_REQUEST_NULL;
	tr_transfer_end(r, s->x[i], st);
	s->x[i] = NULL;
}

static void set_all(struct tr_run *r, struct set *s, bool test)
{
	int flag = !test;

	if (!test)
		MPI_Waitall(s->n, s->req, s->st);
	while (!flag)
		MPI_Testall(s->n, s->req, &flag, s->st);
	for (int i = 0; i < s->n; i++)
		set_end(r, s, i, &s->st[i]);
}

static void set_any(struct tr_run *r, struct set *s, bool test)
{
	int index, flag;

	for (int done = 0; done < s->n; done++) {
		flag = !test;
		if (!test)
			MPI_Waitany(s->n, s->req, &index, s->st);
		while (!flag)
			MPI_Testany(s->n, s->req, &index, &flag, s->st);
		set_end(r, s, index, s->st);
	}
	MPI_Waitany(s->n, s->req, &index, s->st);
	tr_equal(r, "Waitany's index when none is left", index, MPI_UNDEFINED);
}

static void set_some(struct tr_run *r, struct set *s, bool test)
{
	int done = 0, n;

	while (done < s->n) {
		if (test)
			MPI_Testsome(s->n, s->req, &n, s->index, s->st);
		else
			MPI_Waitsome(s->n, s->req, &n, s->index, s->st);
		tr_need(r, n >= !test && n <= s->n - done, "%s: %d of %d have ended",
			test ? "Testsome" : "Waitsome", n, s->n - done);
		for (int i = 0; i < n; i++)
			set_end(r, s, s->index[i], &s->st[i]);
		done += n;
	}
}

static void set_wait(struct tr_run *r, struct set *s)
{
	int way = tr_below(&r->mine, 7);

	switch (way) {
	case 0:
	case 1:
		set_all(r, s, way);
		break;
	case 2:
	case 3:
		set_any(r, s, way - 2);
		break;
	case 4:
	case 5:
		set_some(r, s, way - 4);
		break;
	default:
		for (int i = s->n - 1; i >= 0; i--) {
			wait_one(r, &s->req[i], s->st);
			set_end(r, s, i, s->st);
		}
	}
}

void tr_transfer_defer(struct tr_run *r, struct tr_transfer *x, int due)
{
	x->due = due;
	x->next = NULL;
	*r->last_transfer = x;
	r->last_transfer = &x->next;
}

/* Moves the transfers to complete out of the list. */
static void set_gather(struct tr_run *r, const struct tr_comm *comm, bool all, struct set *s)
{
	struct tr_transfer **link = &r->transfers, *x;

	s->n = 0;
	while ((x = *link)) {
		if (all ? comm && x->comm != comm : x->due > r->step) {
			link = &x->next;
			continue;
		}
		*link = x->next;
		s->req[s->n] = x->req;
		s->x[s->n++] = x;
	}
	r->last_transfer = link;
}

void tr_settle(struct tr_run *r, const struct tr_comm *comm, bool all)
{
	struct set s;
	size_t capacity = 0;

	for (struct tr_transfer *x = r->transfers; x; x = x->next)
		capacity++;
	if (!capacity)
		return;
	s.req = malloc(capacity * sizeof(*s.req));
	s.st = malloc(capacity * sizeof(*s.st));
	s.x = malloc(capacity * sizeof(struct tr_transfer *));
	s.index = malloc(capacity * sizeof(*s.index));
	if (!s.req || !s.st || !s.x || !s.index)
		abort();
	set_gather(r, comm, all, &s);
	if (s.n)
		set_wait(r, &s);
	free(s.req);
	free(s.st);
	free(s.x);
	free(s.index);
}
