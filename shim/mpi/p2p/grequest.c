// SPDX-License-Identifier: Apache-2.0
/* Generalized requests, of which the real library knows nothing. */
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/p2p/status.h"

struct gck_mpi_general {
	MPI_Grequest_query_function *query;
	MPI_Grequest_free_function *free;
	MPI_Grequest_cancel_function *cancel;
	void *extra;
};

int gck_mpi_general_query(struct gck_mpi_request *r)
{
	r->status = GCK_MPI_STATUS_EMPTY;
	return r->general->query ? r->general->query(r->general->extra, &r->status) : MPI_SUCCESS;
}

int gck_mpi_general_free(struct gck_mpi_request *r)
{
	return r->general->free ? r->general->free(r->general->extra) : MPI_SUCCESS;
}

int gck_mpi_general_cancel(struct gck_mpi_request *r)
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
