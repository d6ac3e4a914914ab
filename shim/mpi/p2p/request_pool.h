/* SPDX-License-Identifier: Apache-2.0
 * Memory of requests, and the counts of messages: the data that every send and receive touches. A
 * request is taken and freed by two loads and two stores while one thread at a time calls MPI, else
 * under a lock. Its memory is never returned to malloc, so all requests can be walked without a
 * list of them. */
#ifndef GCK_MPI_REQUEST_POOL_H
#define GCK_MPI_REQUEST_POOL_H

#include "shim/mpi/comm/comm.h"
#include "shim/mpi/p2p/request.h"

struct gck_mpi_pool {
	struct gck_mpi_request *free;
	uint64_t order;             /* of the last request started */
	int nranks;
	bool threaded;              /* threads may call MPI at the same time */
	bool locked;                /* the spin lock, if threaded */
};

extern struct gck_mpi_pool gck_mpi_pool;

/* Called in MPI_Init after the real one. threaded: MPI_THREAD_MULTIPLE. -1: the real library failed
 * to make the communicator for deliveries. */
GCK_MUST_CHECK int gck_mpi_request_init(int nranks, bool threaded);

/* Takes a request under the lock. NULL: no memory. */
GCK_MUST_CHECK struct gck_mpi_request *gck_mpi_request_new_locked(void);

/* Frees a request in any state. */
void gck_mpi_request_free(struct gck_mpi_request *r);

/* Counts the active requests on this communicator. */
size_t gck_mpi_requests_on(MPI_Comm comm);

/* Calls fn for all requests that are not free, in no order; fn may free any. Returns how many it
 * has looked at, free or not. */
size_t gck_mpi_request_each(void (*fn)(struct gck_mpi_request *r, void *arg), void *arg);

static inline uint64_t gck_mpi_next_order(void)
{
	if (gck_mpi_pool.threaded)
		return __atomic_add_fetch(&gck_mpi_pool.order, 1, __ATOMIC_RELAXED);
	return ++gck_mpi_pool.order;
}

/* Takes a request with the initial fields of all kinds; NULL: no memory. */
GCK_MUST_CHECK static inline struct gck_mpi_request *
gck_mpi_request_new(enum gck_mpi_request_what what)
{
	struct gck_mpi_request *r = gck_mpi_pool.free;

	if (__builtin_expect(gck_mpi_pool.threaded || !r, 0)) {
		r = gck_mpi_request_new_locked();
		if (!r)
			return NULL;
	} else {
		gck_mpi_pool.free = r->next_free;
	}
	r->h.real = NULL;
	r->state = GCK_MPI_REQUEST_INACTIVE;
	r->what = what;
	r->persistent = r->holds_type = r->orphan = r->cancelled = false;
	r->from = NULL;
	r->comm = NULL;
	return r;
}

/* Frees a message's request that has ended and that the program no longer has. */
static inline void gck_mpi_request_release(struct gck_mpi_request *r)
{
	if (__builtin_expect(gck_mpi_pool.threaded || r->holds_type || r->h.fortran >= 0 ||
			     r->what >= GCK_MPI_REQUEST_GENERAL, 0)) {
		gck_mpi_request_free(r);
		return;
	}
	r->state = GCK_MPI_REQUEST_FREE;
	r->next_free = gck_mpi_pool.free;
	gck_mpi_pool.free = r;
}

/* Messages are counted per communicator and peer, because those on a communicator that all its
 * ranks have left no longer count, received or not. MPI_PROC_NULL and invalid ranks are not
 * counted. */
static inline void gck_mpi_count(uint64_t *counts, const struct gck_mpi_comm *c, int peer, int by)
{
	if (__builtin_expect((unsigned)peer >= (unsigned)c->npeers, 0))
		return;
	if (__builtin_expect(gck_mpi_pool.threaded, 0))
		__atomic_add_fetch(&counts[peer], (uint64_t)by, __ATOMIC_RELAXED);
	else
		counts[peer] += (uint64_t)by;
}

/* Counts a message to a peer; by = -1 takes back one that was not sent. */
static inline void gck_mpi_count_sent(MPI_Comm comm, int peer, int by)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(comm);

	gck_mpi_count(c->sent, c, peer, by);
}

static inline void gck_mpi_count_received(MPI_Comm comm, int peer)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(comm);

	gck_mpi_count(c->received, c, peer, 1);
}

#endif
