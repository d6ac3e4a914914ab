// SPDX-License-Identifier: Apache-2.0
/* Memory of requests. */
#include "shim/mpi/p2p/request_pool.h"

#include "shim/mpi/p2p/flushed.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/handles/fortran_number.h"
#include "shim/mpi/types/datatype.h"

enum { SLAB_REQUESTS = 128 };

struct slab {
	struct slab *next;
	struct gck_mpi_request requests[SLAB_REQUESTS];
};

struct gck_mpi_pool gck_mpi_pool;

static struct slab *slabs;

/* A spin lock, held for a few instructions: a mutex would cost more than what it guards. */
static void lock(void)
{
	while (__atomic_exchange_n(&gck_mpi_pool.locked, true, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&gck_mpi_pool.locked, false, __ATOMIC_RELEASE);
}

int gck_mpi_request_init(int nranks, bool threaded)
{
	gck_mpi_pool.nranks = nranks;
	gck_mpi_pool.threaded = threaded;
	/* here, because later it would wait for a pending MPI_Comm_idup */
	return gck_mpi_flushed_init(false, NULL);
}

/* The lock is held. */
static struct gck_mpi_request *grow(void)
{
	struct slab *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	for (int i = 0; i < SLAB_REQUESTS; i++) {
		struct gck_mpi_request *r = &s->requests[i];

		r->h.magic = GCK_MPI_HANDLE_MAGIC(GCK_MPI_REQUEST);
		r->h.kind = GCK_MPI_REQUEST;
		r->h.fortran = -1;
		r->next_free = i + 1 < SLAB_REQUESTS ? r + 1 : gck_mpi_pool.free;
	}
	s->next = slabs;
	slabs = s;
	return gck_mpi_pool.free = &s->requests[0];
}

struct gck_mpi_request *gck_mpi_request_new_locked(void)
{
	struct gck_mpi_request *r;

	lock();
	r = gck_mpi_pool.free ? gck_mpi_pool.free : grow();
	if (r)
		gck_mpi_pool.free = r->next_free;
	unlock();
	return r;
}

void gck_mpi_request_free(struct gck_mpi_request *r)
{
	if (r->what == GCK_MPI_REQUEST_CLASS && r->class->freed)
		r->class->freed(r);
	if (r->what == GCK_MPI_REQUEST_GENERAL)
		free(r->general);
	if (r->holds_type)
		gck_mpi_type_unref(r->type);
	if (r->h.fortran >= 0)
		gck_mpi_fortran_free(&r->h);
	lock();
	r->state = GCK_MPI_REQUEST_FREE;
	r->next_free = gck_mpi_pool.free;
	gck_mpi_pool.free = r;
	unlock();
}

size_t gck_mpi_request_each(void (*fn)(struct gck_mpi_request *r, void *arg), void *arg)
{
	struct slab *first;
	size_t n = 0;

	lock();
	first = slabs;
	unlock();
	for (struct slab *s = first; s; s = s->next, n += SLAB_REQUESTS)
		for (int i = 0; i < SLAB_REQUESTS; i++)
			if (s->requests[i].state != GCK_MPI_REQUEST_FREE)
				fn(&s->requests[i], arg);
	return n;
}

struct pending {
	MPI_Comm comm;
	size_t n;
};

static void count_pending(struct gck_mpi_request *r, void *arg)
{
	struct pending *p = arg;

	p->n += r->comm == p->comm && r->state == GCK_MPI_REQUEST_ACTIVE;
}

size_t gck_mpi_requests_on(MPI_Comm comm)
{
	struct pending p = { .comm = comm };

	gck_mpi_request_each(count_pending, &p);
	return p.n;
}
