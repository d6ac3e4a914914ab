/* SPDX-License-Identifier: Apache-2.0
 * The requests of non-blocking collectives. */
#include "config.h"

#include "shim/mpi/collective/issue.h"

#include <pthread.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/comm/comm.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"

/* Held while a collective is issued and while an exclusive one is polled: threads may do so at the
 * same time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int reissue(struct gck_mpi_request *r, struct gck_error *err)
{
	struct gck_mpi_nonblocking *n = r->arg;
	int rc = gck_mpi_inputs_put_back(n);

	if (!rc)
		rc = n->issue(n, (MPI_Request *)&r->h.real);
	return rc ? gck_fail(err, EIO,
			     "a non-blocking collective (number %lu of a communicator of %d ranks) "
			     "cannot be started again after a restart: MPI error %d",
			     (unsigned long)n->number, gck_mpi_comm_of(n->comm)->size, rc)
		  : 0;
}

static void freed(struct gck_mpi_request *r)
{
	gck_mpi_nonblocking_free(r->arg);
}

static bool poll_exclusive(struct gck_mpi_request *r)
{
	bool complete;

	pthread_mutex_lock(&lock);
	complete = r->state != GCK_MPI_REQUEST_ACTIVE || gck_mpi_request_poll_real(r);
	pthread_mutex_unlock(&lock);
	return complete;
}

/* Polls what it waits for. */
static bool poll_postponed(struct gck_mpi_request *r)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(r->comm);

	pthread_mutex_lock(&lock);
	if (c->exclusive)
		gck_mpi_request_poll_real(c->exclusive);
	pthread_mutex_unlock(&lock);
	return false;
}

#define NAMED "non-blocking collective"

static const struct gck_mpi_request_class issued = {
	.name = NAMED,
	.completed = gck_mpi_nonblocking_completed,
	.reissue = reissue,
	.freed = freed,
};

static const struct gck_mpi_request_class issued_exclusive = {
	.name = NAMED,
	.poll = poll_exclusive,
	.completed = gck_mpi_nonblocking_completed,
	.reissue = reissue,
	.freed = freed,
};

static const struct gck_mpi_request_class postponed = {
	.name = NAMED,
	.poll = poll_postponed,
	.completed = gck_mpi_nonblocking_completed,
	.freed = freed,
};

static int issue_now(struct gck_mpi_comm *c, struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *n = r->arg;
	int rc = n->issue(n, (MPI_Request *)&r->h.real);

	r->class = n->exclusive ? &issued_exclusive : &issued;
	if (n->exclusive && !rc)
		c->exclusive = r;
	return rc;
}

static void postpone(struct gck_mpi_comm *c, struct gck_mpi_request *r)
{
	struct gck_mpi_nonblocking *last = c->postponed ? c->postponed_last->arg : NULL;

	*(last ? &last->next_postponed : &c->postponed) = r;
	c->postponed_last = r;
}

int gck_mpi_nonblocking_issue(struct gck_mpi_nonblocking *n, MPI_Request *request)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(n->comm);
	struct gck_mpi_request *r;
	int rc = MPI_SUCCESS;

	pthread_mutex_lock(&lock);
	r = gck_mpi_request_start(&postponed, n->comm, n);
	if (r && c->exclusive)
		postpone(c, r);
	else
		rc = r ? issue_now(c, r) : MPI_ERR_NO_MEM;
	pthread_mutex_unlock(&lock);
	if (!rc)
		*request = (MPI_Request)r;
	else if (r)
		gck_mpi_request_free(r);
	else
		gck_mpi_nonblocking_free(n);
	return rc;
}

void gck_mpi_nonblocking_release(struct gck_mpi_nonblocking *n)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(n->comm);

	if (!c->exclusive || c->exclusive->arg != n) /* n was not issued, for an error */
		return;
	c->exclusive = NULL;
	while (c->postponed && !c->exclusive) {
		struct gck_mpi_request *r = c->postponed;
		int rc;

		c->postponed = ((struct gck_mpi_nonblocking *)r->arg)->next_postponed;
		rc = issue_now(c, r);
		if (rc)
			gck_mpi_request_complete(r, rc);
	}
}

void gck_mpi_comm_await(MPI_Comm comm)
{
	const struct gck_mpi_comm *c = gck_mpi_comm_of(comm);

	while (__atomic_load_n(&c->exclusive, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&lock);
		if (c->exclusive)
			gck_mpi_request_poll_real(c->exclusive);
		pthread_mutex_unlock(&lock);
		gck_mpi_park_if_closed();
	}
}
