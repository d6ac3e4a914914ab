// SPDX-License-Identifier: Apache-2.0
/* The life of a request: start, poll, completion, cancellation, freeing. */
#include "shim/mpi/p2p/request.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/sweep.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request_batch.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/p2p/status.h"

static _Atomic int orphans;

struct gck_mpi_request *gck_mpi_request_persistent(const struct gck_mpi_request_class *class,
						   void *on, void *arg)
{
	struct gck_mpi_request *r = gck_mpi_request_new(GCK_MPI_REQUEST_CLASS);

	if (!r)
		return NULL;
	r->class = class;
	r->comm = on;
	r->arg = arg;
	r->persistent = true;
	return r;
}

struct gck_mpi_request *gck_mpi_request_start(const struct gck_mpi_request_class *class, void *on,
					      void *arg)
{
	struct gck_mpi_request *r = gck_mpi_request_persistent(class, on, arg);

	if (!r)
		return NULL;
	r->persistent = false;
	r->order = gck_mpi_next_order();
	/* last: the MPI thread may walk the requests, and reads the class of active ones */
	__atomic_store_n(&r->state, GCK_MPI_REQUEST_ACTIVE, __ATOMIC_RELEASE);
	return r;
}

/* ---- generalized requests ------------------------------------------------------------------- */

/* The real library knows nothing of them. */
struct gck_mpi_general {
	MPI_Grequest_query_function *query;
	MPI_Grequest_free_function *free;
	MPI_Grequest_cancel_function *cancel;
	void *extra;
};

static int general_query(struct gck_mpi_request *r)
{
	r->status = GCK_MPI_STATUS_EMPTY;
	return r->general->query ? r->general->query(r->general->extra, &r->status) : MPI_SUCCESS;
}

static int general_free(struct gck_mpi_request *r)
{
	return r->general->free ? r->general->free(r->general->extra) : MPI_SUCCESS;
}

static int general_cancel(struct gck_mpi_request *r)
{
	if (!r->general->cancel)
		return MPI_SUCCESS;
	return r->general->cancel(r->general->extra, gck_mpi_request_is_complete(r));
}

static struct gck_mpi_request *general_new(const struct gck_mpi_general *functions)
{
	struct gck_mpi_general *general = malloc(sizeof(*general));
	struct gck_mpi_request *r = general ? gck_mpi_request_new(GCK_MPI_REQUEST_GENERAL) : NULL;

	if (!r) {
		free(general);
		return NULL;
	}
	*general = *functions;
	r->general = general;
	r->state = GCK_MPI_REQUEST_ACTIVE;
	return r;
}

GCK_MPI_FUNCTION(Grequest_start,
		 (MPI_Grequest_query_function * query, MPI_Grequest_free_function *free_,
		  MPI_Grequest_cancel_function *cancel, void *extra, MPI_Request *request))
{
	struct gck_mpi_general functions = { query, free_, cancel, extra };
	struct gck_mpi_request *r;

	if (!request)
		return gck_mpi_error(NULL, MPI_ERR_REQUEST, "MPI_Grequest_start");
	gck_mpi_enter();
	r = general_new(&functions);
	if (r)
		*request = (MPI_Request)r;
	gck_mpi_leave();
	return gck_mpi_error(NULL, r ? MPI_SUCCESS : MPI_ERR_NO_MEM, "MPI_Grequest_start");
}

GCK_MPI_FUNCTION(Grequest_complete, (MPI_Request request))
{
	struct gck_mpi_request *r = (struct gck_mpi_request *)request;
	int rc = MPI_ERR_REQUEST;

	gck_mpi_enter();
	if (gck_mpi_is(request, GCK_MPI_REQUEST) && request != MPI_REQUEST_NULL &&
	    r->what == GCK_MPI_REQUEST_GENERAL && r->state == GCK_MPI_REQUEST_ACTIVE) {
		gck_mpi_request_complete(r, MPI_SUCCESS);
		rc = MPI_SUCCESS;
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Grequest_complete");
}

/* ---- completion ----------------------------------------------------------------------------- */

/* Frees an orphan that is complete; the program will not collect it. */
static void drop_orphan(struct gck_mpi_request *r)
{
	orphans--;
	if (r->h.real)
		gck_mpi_real.Request_free((MPI_Request *)&r->h.real);
	if (r->what == GCK_MPI_REQUEST_GENERAL)
		general_free(r);
	gck_mpi_request_free(r);
}

void gck_mpi_request_complete(struct gck_mpi_request *r, int rc)
{
	r->status.MPI_ERROR = rc;
	if (!r->persistent)
		r->h.real = NULL;
	if (r->what == GCK_MPI_REQUEST_CLASS && r->class->completed)
		r->class->completed(r);
	/* another thread may complete a generalized request than the one that waits for it */
	__atomic_store_n(&r->state, GCK_MPI_REQUEST_COMPLETE, __ATOMIC_RELEASE);
	if (__builtin_expect(r->orphan, 0))
		drop_orphan(r);
}

static bool poll_flushed(struct gck_mpi_request *r)
{
	struct gck_mpi_flushed *d = r->from;

	if (!gck_mpi_flushed_arrived(d))
		return false;
	r->from = NULL;
	gck_mpi_request_complete(
		r, gck_mpi_flushed_deliver(d, r->buf, r->count, r->type, &r->status));
	return true;
}

void gck_mpi_request_arrived(struct gck_mpi_request *r, int rc)
{
	if ((r->what == GCK_MPI_REQUEST_RECV || r->what == GCK_MPI_REQUEST_MATCHED) &&
	    !r->status._cancelled)
		gck_mpi_count_received(r->comm, r->status.MPI_SOURCE);
	gck_mpi_request_complete(r, rc);
}

bool gck_mpi_request_poll_real(struct gck_mpi_request *r)
{
	int flag = 0, rc;

	rc = gck_mpi_real.Test((MPI_Request *)&r->h.real, &flag, &r->status);
	if (__builtin_expect(!flag && !rc, 1))
		return false;
	gck_mpi_request_arrived(r, rc);
	return true;
}

bool gck_mpi_request_poll(struct gck_mpi_request *r)
{
	if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != GCK_MPI_REQUEST_ACTIVE)
		return true;
	if (__builtin_expect(gck_mpi_request_in_real(r), 1))
		return gck_mpi_request_poll_real(r);
	if (r->what == GCK_MPI_REQUEST_CLASS)
		return r->class->poll(r);
	if (r->what != GCK_MPI_REQUEST_GENERAL)
		return poll_flushed(r);
	gck_mpi_progress();
	return false;
}

void gck_mpi_request_wait(struct gck_mpi_request *r)
{
	while (!gck_mpi_request_poll(r))
		gck_mpi_park_if_closed();
}

int gck_mpi_request_collect(MPI_Request *request, MPI_Status *status)
{
	struct gck_mpi_request *r = (struct gck_mpi_request *)*request;
	int rc;

	if (__builtin_expect(r->what == GCK_MPI_REQUEST_GENERAL, 0))
		r->status.MPI_ERROR = general_query(r);
	rc = r->status.MPI_ERROR;
	*status = r->status;
	if (r->persistent) {
		r->state = GCK_MPI_REQUEST_INACTIVE;
		return rc;
	}
	if (__builtin_expect(r->what == GCK_MPI_REQUEST_GENERAL, 0)) {
		int freed = general_free(r);

		rc = rc ? rc : freed;
	}
	gck_mpi_request_release(r);
	*request = MPI_REQUEST_NULL;
	return rc;
}

int gck_mpi_requests_check(int n, const MPI_Request *requests)
{
	if (n < 0 || (n && !requests))
		return n < 0 ? MPI_ERR_COUNT : MPI_ERR_REQUEST;
	for (int i = 0; i < n; i++)
		if (!gck_mpi_is(requests[i], GCK_MPI_REQUEST))
			return MPI_ERR_REQUEST;
	return MPI_SUCCESS;
}

void gck_mpi_progress(void)
{
	int flag;

	gck_mpi_real.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, GCK_MPI_REAL_COMM(MPI_COMM_SELF), &flag,
			    MPI_STATUS_IGNORE);
}

#define TEST_COST 32 /* a test of the real library makes progress; against a look at a request */

struct reap {
	struct gck_mpi_request_batch batch;
	size_t tests;
};

static void reap(struct gck_mpi_request *r, void *arg)
{
	struct reap *reap = arg;

	if (!r->orphan || r->what == GCK_MPI_REQUEST_GENERAL)
		return;
	gck_mpi_request_batch_poll(&reap->batch, r);
	reap->tests++;
}

size_t gck_mpi_request_reap(void)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	struct reap r;
	size_t looks;

	if (!orphans || pthread_mutex_trylock(&one_at_a_time))
		return 0;
	r.batch.n = 0;
	r.tests = 0;
	looks = gck_mpi_request_each(reap, &r);
	gck_mpi_request_batch_end(&r.batch);
	pthread_mutex_unlock(&one_at_a_time);
	return looks + TEST_COST * r.tests;
}

/* A send was counted when it started, so the real library may end it alone. Other active requests
 * live on as orphans: they must be counted and, after a restart, issued again. */
int gck_mpi_request_let_go(struct gck_mpi_request *r)
{
	int rc = MPI_SUCCESS;

	if (r->state == GCK_MPI_REQUEST_ACTIVE && r->what != GCK_MPI_REQUEST_SEND) {
		orphans++;
		r->orphan = true;
		return MPI_SUCCESS;
	}
	if (r->h.real)
		rc = gck_mpi_real.Request_free((MPI_Request *)&r->h.real);
	if (r->what == GCK_MPI_REQUEST_GENERAL)
		rc = general_free(r);
	gck_mpi_request_free(r);
	return rc;
}

GCK_MPI_FUNCTION(Request_free, (MPI_Request *request))
{
	static struct gck_mpi_sweep sweep;
	MPI_Comm comm = NULL;
	int rc = MPI_ERR_REQUEST;

	gck_mpi_enter();
	if (request && gck_mpi_is(*request, GCK_MPI_REQUEST) && *request != MPI_REQUEST_NULL) {
		if (gck_mpi_sweep_due(&sweep))
			gck_mpi_sweep_done(&sweep, gck_mpi_request_reap());
		comm = ((struct gck_mpi_request *)*request)->comm;
		rc = gck_mpi_request_let_go((struct gck_mpi_request *)*request);
		*request = MPI_REQUEST_NULL;
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Request_free");
}

int gck_mpi_request_cancel(struct gck_mpi_request *r)
{
	int rc;

	if (r->what == GCK_MPI_REQUEST_GENERAL)
		return general_cancel(r);
	if (r->state != GCK_MPI_REQUEST_ACTIVE)
		return r->state == GCK_MPI_REQUEST_COMPLETE ? MPI_SUCCESS : MPI_ERR_REQUEST;
	if (r->what != GCK_MPI_REQUEST_CLASS && r->from)
		return MPI_SUCCESS; /* too late: it has a message */
	rc = gck_mpi_real.Cancel((MPI_Request *)&r->h.real);
	r->cancelled |= !rc; /* a cancel that failed is not repeated after a restart */
	return rc;
}

GCK_MPI_FUNCTION(Cancel, (MPI_Request *request))
{
	MPI_Comm comm = NULL;
	int rc = MPI_ERR_REQUEST;

	gck_mpi_enter();
	if (request && gck_mpi_is(*request, GCK_MPI_REQUEST) && *request != MPI_REQUEST_NULL) {
		comm = ((struct gck_mpi_request *)*request)->comm;
		rc = gck_mpi_request_cancel((struct gck_mpi_request *)*request);
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Cancel");
}

GCK_MPI_FUNCTION(Request_get_status, (MPI_Request request, int *flag, MPI_Status *status))
{
	struct gck_mpi_request *r = (struct gck_mpi_request *)request;
	int rc = MPI_SUCCESS;

	if (!flag || !gck_mpi_is(request, GCK_MPI_REQUEST))
		return gck_mpi_error(NULL, flag ? MPI_ERR_REQUEST : MPI_ERR_ARG,
				     "MPI_Request_get_status");
	gck_mpi_enter();
	*flag = 1;
	if (!gck_mpi_request_open(request)) {
		gck_mpi_status_empty(status);
	} else if (!gck_mpi_request_poll(r)) {
		*flag = 0;
	} else {
		if (r->what == GCK_MPI_REQUEST_GENERAL)
			rc = general_query(r);
		gck_mpi_status_put(status, &r->status);
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Request_get_status");
}
