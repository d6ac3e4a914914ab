/* SPDX-License-Identifier: Apache-2.0
 * MPI_Comm_free and MPI_Comm_disconnect. */
#include "config.h"

#include "shim/mpi/collective/comm_free.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/sweep.h"
#include "shim/mpi/collective/nonblocking.h"
#include "shim/mpi/handles/attribute.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"

/* ---- the goodbye ---------------------------------------------------------------------------- */

static int issue(struct gck_mpi_nonblocking *n, MPI_Request *real)
{
	return gck_mpi_real.Ibarrier(GCK_MPI_REAL_COMM(n->comm), real);
}

/* Makes the same collective calls on the fresh communicator as ranks that have not left it. */
static int reissue(struct gck_mpi_request *r, struct gck_error *err)
{
	struct gck_mpi_nonblocking *n = r->arg, *first = gck_mpi_comm_of(n->comm)->first;
	MPI_Request real;
	int rc = first ? first->issue(first, &real) : MPI_SUCCESS;

	if (!rc && first)
		rc = gck_mpi_real.Request_free(&real);
	if (!rc)
		rc = n->issue(n, (MPI_Request *)&r->h.real);
	return rc ? gck_fail(err, EIO,
			     "a freed communicator of %d ranks cannot be freed again after a "
			     "restart: MPI error %d",
			     gck_mpi_comm_of(n->comm)->size, rc)
		  : 0;
}

/* Every rank has started its goodbye. (Without an argument: this one was not begun.) */
static void is_over(struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;
	struct gck_mpi_comm *c;

	if (!n)
		return;
	c = gck_mpi_comm_of(n->comm);
	gck_mpi_nonblocking_free(n);
	gck_mpi_clock_remove(&c->clock);
	__atomic_store_n(&c->life, GCK_MPI_COMM_LEFT, __ATOMIC_RELEASE);
}

static const struct gck_mpi_request_class goodbye = {
	.name = "end of a communicator",
	.completed = gck_mpi_nonblocking_completed,
	.reissue = reissue,
	.freed = is_over,
};

/* Starts the goodbye. A quiesce does not hold it back as it does a program's collective, because no
 * program sees its end. Without memory a later sweep tries again. */
static void leave(struct gck_mpi_comm *c)
{
	struct gck_mpi_nonblocking *n = gck_mpi_nonblocking_new(sizeof *n, c->handle, issue);
	struct gck_mpi_request *r = n ? gck_mpi_request_start(&goodbye, c->handle, n) : NULL;

	if (r) {
		n->number = 1 +
			    atomic_fetch_add_explicit(&c->clock.started, 1, memory_order_relaxed);
		if (!n->issue(n, (MPI_Request *)&r->h.real)) {
			gck_mpi_request_let_go(r);
			return;
		}
		gck_mpi_clock_unstart(&c->clock);
		r->arg = NULL;
		gck_mpi_request_free(r);
	}
	if (n)
		gck_mpi_nonblocking_free(n);
	c->life = GCK_MPI_COMM_FREED;
}

/* ---- sweeps --------------------------------------------------------------------------------- */

static void find_use(struct gck_mpi_request *r, void *comm)
{
	if (r->comm == *(MPI_Comm *)comm)
		*(MPI_Comm *)comm = MPI_COMM_NULL;
}

bool gck_mpi_comm_in_use(const struct gck_mpi_comm *c)
{
	MPI_Comm found = c->handle;

	if (c->messages)
		return true;
	gck_mpi_request_each(find_use, &found);
	return found != c->handle;
}

/* Communicators that a sweep has claimed: no other thread finds them. */
struct claim {
	struct gck_mpi_comm *c;
	MPI_Comm handle;
	bool in_use;
};

struct claims {
	enum gck_mpi_comm_life life; /* that of all of them before */
	struct claim *v;
	size_t n, capacity, looks;
};

static int grow(struct claims *s)
{
	size_t capacity = s->capacity ? 2 * s->capacity : 64;
	struct claim *v = realloc(s->v, capacity * sizeof *v);

	if (!v)
		return -1;
	s->v = v;
	s->capacity = capacity;
	return 0;
}

/* One that has left loses its handle's body, since the MPI thread walks the list while other
 * threads are inside. Without memory the others are left to the next sweep. */
static bool claim(struct gck_mpi_handle *h, void *to)
{
	struct claims *s = to;
	struct gck_mpi_comm *c = h->body;

	s->looks++;
	if (!c || __atomic_load_n(&c->life, __ATOMIC_ACQUIRE) != s->life)
		return false;
	if (s->n == s->capacity && grow(s))
		return true;
	if (s->life == GCK_MPI_COMM_LEFT)
		h->body = NULL;
	else
		c->life = GCK_MPI_COMM_LEAVING;
	s->v[s->n++] = (struct claim){.c = c, .handle = c->handle, .in_use = c->messages};
	return false;
}

static int by_handle(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	return x->handle < y->handle ? -1 : x->handle > y->handle;
}

static void note_use(struct gck_mpi_request *r, void *claims)
{
	const struct claims *s = claims;
	struct claim key = {.handle = r->comm}, *found;

	found = bsearch(&key, s->v, s->n, sizeof key, by_handle);
	if (found)
		found->in_use = true;
}

/* A communicator with processes of other worlds has no goodbye: they may run without the
 * stand-in. */
static void leave_if_unused(const struct claim *x)
{
	if (x->in_use)
		x->c->life = GCK_MPI_COMM_FREED;
	else if (x->c->dynamic)
		x->c->life = GCK_MPI_COMM_LEFT;
	else
		leave(x->c);
}

/* Returns the cost, in looks at a communicator or request. */
static size_t leave_unused(void)
{
	struct claims s = {.life = GCK_MPI_COMM_FREED};

	gck_mpi_first_that(GCK_MPI_COMM, claim, &s);
	if (s.n) {
		qsort(s.v, s.n, sizeof *s.v, by_handle);
		s.looks += gck_mpi_request_each(note_use, &s);
	}
	for (size_t i = 0; i < s.n; i++)
		leave_if_unused(&s.v[i]);
	free(s.v);
	return s.looks;
}

static void end(struct gck_mpi_comm *c)
{
	MPI_Comm real = gck_mpi_real_of(c->handle);

	if (real)
		gck_mpi_real.Comm_free(&real);
	if (c->first)
		gck_mpi_nonblocking_free(c->first);
	gck_mpi_flushed_free_all(c);
	gck_mpi_comm_forget(c);
}

static void end_left(void)
{
	struct claims s = {.life = GCK_MPI_COMM_LEFT};

	gck_mpi_first_that(GCK_MPI_COMM, claim, &s);
	for (size_t i = 0; i < s.n; i++)
		end(s.v[i].c);
	free(s.v);
}

static struct gck_mpi_sweep sweep;

void gck_mpi_comm_reap(void)
{
	size_t cost = leave_unused();

	cost += gck_mpi_request_reap();
	end_left();
	gck_mpi_sweep_done(&sweep, cost);
}

void gck_mpi_comm_tend(void)
{
	if (gck_mpi_sweep_due(&sweep))
		gck_mpi_comm_reap();
}

void gck_mpi_comm_let_go(struct gck_mpi_comm *c)
{
	c->life = GCK_MPI_COMM_FREED;
	gck_mpi_comm_tend();
}

/* ---- MPI functions -------------------------------------------------------------------------- */

static bool is_alive(MPI_Comm comm)
{
	const struct gck_mpi_handle *h = (const void *)comm;

	return gck_mpi_is(h, GCK_MPI_COMM) && !(h->flags & GCK_MPI_PREDEFINED) &&
	       gck_mpi_comm_of(comm)->life == GCK_MPI_COMM_ALIVE;
}

/* The real library returns the error for a handle that cannot be freed. */
static int free_wrong(MPI_Comm *comm, int (*real_free)(MPI_Comm *))
{
	MPI_Comm real = comm && gck_mpi_is(*comm, GCK_MPI_COMM) &&
			gck_mpi_comm_of(*comm)->life == GCK_MPI_COMM_ALIVE
				? gck_mpi_real_of(*comm) : gck_mpi_real_null[GCK_MPI_COMM];

	return real_free(comm ? &real : NULL);
}

GCK_MPI_FUNCTION(Comm_free, (MPI_Comm *comm))
{
	MPI_Comm was = comm ? *comm : MPI_COMM_NULL;
	int rc = is_alive(was) ? gck_mpi_attributes_delete(was) : MPI_SUCCESS;

	if (rc)
		return gck_mpi_error(was, rc, "MPI_Comm_free");
	gck_mpi_enter();
	if (is_alive(was))
		gck_mpi_comm_let_go(gck_mpi_comm_of(was));
	else
		rc = free_wrong(comm, gck_mpi_real.Comm_free);
	if (!rc)
		*comm = MPI_COMM_NULL;
	gck_mpi_leave();
	return gck_mpi_error(rc ? was : NULL, rc, "MPI_Comm_free");
}

static void poll_one(struct gck_mpi_request *r, void *comm)
{
	if (r->comm == comm && r->state == GCK_MPI_REQUEST_ACTIVE && !r->orphan)
		gck_mpi_request_poll(r);
}

static int disconnect_real(MPI_Comm comm)
{
	MPI_Comm real = GCK_MPI_REAL_COMM(comm);
	int rc = gck_mpi_real.Comm_disconnect(&real);

	if (!rc)
		gck_mpi_handle_set_real((void *)comm, NULL);
	return rc;
}

/* Unlike free it waits for pending requests, before the tick because it parks. Within a world it is
 * a barrier and a free, as in Open MPI; our free keeps what persistent requests need. */
static int disconnect(MPI_Comm comm)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(comm);
	int rc;

	while (gck_mpi_requests_on(comm)) {
		gck_mpi_request_each(poll_one, comm);
		gck_mpi_request_reap();
		gck_mpi_park_if_closed();
	}
	gck_mpi_clock_tick(&c->clock);
	rc = c->dynamic ? disconnect_real(comm) : gck_mpi_real.Barrier(GCK_MPI_REAL_COMM(comm));
	if (rc)
		gck_mpi_comm_failed(comm, rc);
	else
		gck_mpi_comm_let_go(c);
	return rc;
}

GCK_MPI_FUNCTION(Comm_disconnect, (MPI_Comm *comm))
{
	MPI_Comm was = comm ? *comm : MPI_COMM_NULL;
	int rc = is_alive(was) ? gck_mpi_attributes_delete(was) : MPI_SUCCESS;

	if (rc)
		return gck_mpi_error(was, rc, "MPI_Comm_disconnect");
	gck_mpi_enter();
	rc = is_alive(was) ? disconnect(was) : free_wrong(comm, gck_mpi_real.Comm_disconnect);
	if (!rc)
		*comm = MPI_COMM_NULL;
	gck_mpi_leave();
	return gck_mpi_error(rc ? was : NULL, rc, "MPI_Comm_disconnect");
}
