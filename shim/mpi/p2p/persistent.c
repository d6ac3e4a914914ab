// SPDX-License-Identifier: Apache-2.0
/* Persistent sends and receives; MPI_Start. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attribute_predefined.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request.h"

int gck_mpi_persistent_make(struct gck_mpi_request *r)
{
	MPI_Datatype type = GCK_MPI_REAL_TYPE(r->type);
	MPI_Comm comm = GCK_MPI_REAL_COMM(r->comm);
	MPI_Request *real = (MPI_Request *)&r->h.real;

	if (r->what == GCK_MPI_REQUEST_RECV)
		return gck_mpi_real.Recv_init(r->buf, r->count, type, r->peer, r->tag, comm, real);
	switch (r->mode) {
	case GCK_MPI_SEND_BUFFERED:
		return gck_mpi_real.Bsend_init(r->buf, r->count, type, r->peer, r->tag, comm, real);
	case GCK_MPI_SEND_SYNCHRONOUS:
		return gck_mpi_real.Ssend_init(r->buf, r->count, type, r->peer, r->tag, comm, real);
	case GCK_MPI_SEND_READY:
		return gck_mpi_real.Rsend_init(r->buf, r->count, type, r->peer, r->tag, comm, real);
	default:
		return gck_mpi_real.Send_init(r->buf, r->count, type, r->peer, r->tag, comm, real);
	}
}

static int make(struct gck_mpi_request *r, MPI_Request *request)
{
	int rc;

	if (!r)
		return MPI_ERR_NO_MEM;
	r->persistent = true;
	rc = gck_mpi_persistent_make(r);
	if (rc) {
		gck_mpi_request_release(r);
		return rc;
	}
	gck_mpi_request_ref_type(r);
	*request = (MPI_Request)r;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Recv_init, (void *buf, int count, MPI_Datatype type, int source, int tag,
			     MPI_Comm comm, MPI_Request *request))
{
	int rc;

	if (!request)
		return gck_mpi_error(comm, MPI_ERR_REQUEST, "MPI_Recv_init");
	gck_mpi_enter();
	rc = make(gck_mpi_recv_new(buf, count, type, source, tag, comm), request);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Recv_init");
}

static int send_init(enum gck_mpi_send_mode mode, const void *buf, int count, MPI_Datatype type,
		     int dest, int tag, MPI_Comm comm, MPI_Request *request, const char *function)
{
	struct gck_mpi_request *r;
	int rc;

	if (!request || gck_mpi_tag_is_own(tag))
		return gck_mpi_error(comm, request ? MPI_ERR_TAG : MPI_ERR_REQUEST, function);
	gck_mpi_enter_as(function);
	r = gck_mpi_recv_new((void *)buf, count, type, dest, tag, comm);
	if (r) {
		r->what = GCK_MPI_REQUEST_SEND;
		r->mode = mode;
	}
	rc = make(r, request);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, function);
}

#define SEND_INIT(name, mode)                                                                      \
	GCK_MPI_FUNCTION(name, (const void *buf, int count, MPI_Datatype type, int dest, int tag,  \
				MPI_Comm comm, MPI_Request *request))                              \
	{                                                                                          \
		return send_init(mode, buf, count, type, dest, tag, comm, request, "MPI_" #name);  \
	}

SEND_INIT(Send_init, GCK_MPI_SEND_STANDARD)
SEND_INIT(Bsend_init, GCK_MPI_SEND_BUFFERED)
SEND_INIT(Ssend_init, GCK_MPI_SEND_SYNCHRONOUS)
SEND_INIT(Rsend_init, GCK_MPI_SEND_READY)

static int start_send(struct gck_mpi_request *r)
{
	int rc;

	gck_mpi_count_sent(r->comm, r->peer, 1);
	rc = gck_mpi_real.Start((MPI_Request *)&r->h.real);
	if (rc)
		gck_mpi_count_sent(r->comm, r->peer, -1);
	return rc;
}

static int start_recv(struct gck_mpi_request *r)
{
	r->from = gck_mpi_flushed_take(r->comm, r->peer, r->tag, &r->status);
	return r->from ? MPI_SUCCESS : gck_mpi_real.Start((MPI_Request *)&r->h.real);
}

static int start_class(struct gck_mpi_request *r)
{
	int rc = r->class->starts ? r->class->starts(r) : MPI_SUCCESS;

	if (rc)
		return rc;
	rc = gck_mpi_real.Start((MPI_Request *)&r->h.real);
	if (rc && r->class->not_started)
		r->class->not_started(r);
	return rc;
}

static int start(struct gck_mpi_request *r)
{
	int rc;

	if (!r->persistent || r->state != GCK_MPI_REQUEST_INACTIVE)
		return MPI_ERR_REQUEST;
	r->order = gck_mpi_next_order();
	r->cancelled = false;
	if (r->what == GCK_MPI_REQUEST_SEND)
		rc = start_send(r);
	else
		rc = r->what == GCK_MPI_REQUEST_RECV ? start_recv(r) : start_class(r);
	if (!rc)
		r->state = GCK_MPI_REQUEST_ACTIVE;
	return rc;
}

static int start_all(int count, MPI_Request *requests, MPI_Comm *comm)
{
	int rc = gck_mpi_requests_check(count, requests);

	for (int i = 0; !rc && i < count; i++) {
		if (requests[i] == MPI_REQUEST_NULL)
			return MPI_ERR_REQUEST;
		*comm = ((struct gck_mpi_request *)requests[i])->comm;
		rc = start((struct gck_mpi_request *)requests[i]);
	}
	return rc;
}

GCK_MPI_FUNCTION(Startall, (int count, MPI_Request requests[]))
{
	MPI_Comm comm = NULL;
	int rc;

	gck_mpi_enter();
	rc = start_all(count, requests, &comm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Startall");
}

GCK_MPI_FUNCTION(Start, (MPI_Request *request))
{
	MPI_Comm comm = NULL;
	int rc;

	gck_mpi_enter();
	rc = start_all(1, request, &comm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Start");
}
