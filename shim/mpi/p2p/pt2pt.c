// SPDX-License-Identifier: Apache-2.0
/* Sends and receives, blocking and non-blocking. */
#include "shim/mpi/p2p/p2p.h"

#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attribute_predefined.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/status.h"
#include "shim/mpi/types/datatype.h"

int gck_mpi_recv_post_real(struct gck_mpi_request *r)
{
	return gck_mpi_real.Irecv(r->buf, r->count, GCK_MPI_REAL_TYPE(r->type), r->peer, r->tag,
				  GCK_MPI_REAL_COMM(r->comm), (MPI_Request *)&r->h.real);
}

int gck_mpi_recv_check(void *buf, int count, MPI_Datatype type, int tag, MPI_Comm comm)
{
	return gck_mpi_real.Recv(buf, count, GCK_MPI_REAL_TYPE(type), MPI_PROC_NULL, tag,
				 GCK_MPI_REAL_COMM(comm), MPI_STATUS_IGNORE);
}

static int recv_post(struct gck_mpi_request *r)
{
	if (__builtin_expect(gck_mpi_flushed_any(), 0)) {
		int rc = gck_mpi_recv_check(r->buf, r->count, r->type, r->tag, r->comm);

		if (rc)
			return rc;
	}
	r->order = gck_mpi_next_order();
	r->state = GCK_MPI_REQUEST_ACTIVE;
	r->from = gck_mpi_flushed_take(r->comm, r->peer, r->tag, &r->status);
	return r->from ? MPI_SUCCESS : gck_mpi_recv_post_real(r);
}

void gck_mpi_request_ref_type(struct gck_mpi_request *r)
{
	gck_mpi_type_ref(r->type);
	r->holds_type = !(((struct gck_mpi_handle *)r->type)->flags & GCK_MPI_PREDEFINED);
}

/* The parameters of every send. */
#define MESSAGE const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm

static inline int start(enum gck_mpi_send_mode mode, MESSAGE, MPI_Request *real)
{
	MPI_Datatype t = GCK_MPI_REAL_TYPE(type);
	MPI_Comm c = GCK_MPI_REAL_COMM(comm);

	switch (mode) {
	case GCK_MPI_SEND_BUFFERED:
		return gck_mpi_real.Ibsend(buf, count, t, dest, tag, c, real);
	case GCK_MPI_SEND_SYNCHRONOUS:
		return gck_mpi_real.Issend(buf, count, t, dest, tag, c, real);
	case GCK_MPI_SEND_READY:
		return gck_mpi_real.Irsend(buf, count, t, dest, tag, c, real);
	case GCK_MPI_SEND_STANDARD:
		break;
	}
	return gck_mpi_real.Isend(buf, count, t, dest, tag, c, real);
}

/* Begins a send. It is counted first: once begun, the message may arrive at any time. */
static inline int send_new(enum gck_mpi_send_mode mode, MESSAGE, struct gck_mpi_request **made)
{
	struct gck_mpi_request *r;
	int rc;

	if (__builtin_expect(gck_mpi_tag_is_own(tag), 0))
		return MPI_ERR_TAG;
	r = gck_mpi_request_new(GCK_MPI_REQUEST_SEND);
	if (__builtin_expect(!r, 0))
		return MPI_ERR_NO_MEM;
	r->comm = comm;
	r->state = GCK_MPI_REQUEST_ACTIVE;
	gck_mpi_count_sent(comm, dest, 1);
	rc = start(mode, buf, count, type, dest, tag, comm, (MPI_Request *)&r->h.real);
	if (__builtin_expect(rc, 0)) {
		gck_mpi_count_sent(comm, dest, -1);
		gck_mpi_request_release(r);
		return rc;
	}
	*made = r;
	return MPI_SUCCESS;
}

static int send_and_wait(enum gck_mpi_send_mode mode, MESSAGE)
{
	struct gck_mpi_request *r;
	int rc = send_new(mode, buf, count, type, dest, tag, comm, &r);

	if (rc)
		return rc;
	gck_mpi_request_wait(r);
	rc = r->status.MPI_ERROR;
	gck_mpi_request_release(r);
	return rc;
}

/* True if every transport sends the message without waiting for the receiver: with its header it is
 * below every eager limit. The least limit is that of sends to oneself, 1,024 bytes; an element of
 * a predefined type has at most 32 bytes. */
static inline bool is_small(int count, MPI_Datatype type)
{
	return (unsigned int)count <= 30 && gck_mpi_is(type, GCK_MPI_DATATYPE) &&
	       ((struct gck_mpi_handle *)type)->flags & GCK_MPI_PREDEFINED;
}

/* A large or synchronous send waits for its receiver; it waits here, where it can park. One thing
 * differs from a run without checkpoints: a synchronous send that is under way at a checkpoint ends
 * when its message is taken in, which may be before its receive is posted. */
static inline int send_blocking(enum gck_mpi_send_mode mode, MESSAGE)
{
	MPI_Datatype t;
	MPI_Comm c;
	int rc;

	if (mode == GCK_MPI_SEND_SYNCHRONOUS ||
	    (mode != GCK_MPI_SEND_BUFFERED && !is_small(count, type)))
		return send_and_wait(mode, buf, count, type, dest, tag, comm);
	if (__builtin_expect(gck_mpi_tag_is_own(tag), 0))
		return MPI_ERR_TAG;
	t = GCK_MPI_REAL_TYPE(type);
	c = GCK_MPI_REAL_COMM(comm);
	gck_mpi_count_sent(comm, dest, 1);
	if (mode == GCK_MPI_SEND_BUFFERED)
		rc = gck_mpi_real.Bsend(buf, count, t, dest, tag, c);
	else if (mode == GCK_MPI_SEND_READY)
		rc = gck_mpi_real.Rsend(buf, count, t, dest, tag, c);
	else
		rc = gck_mpi_real.Send(buf, count, t, dest, tag, c);
	if (__builtin_expect(rc, 0))
		gck_mpi_count_sent(comm, dest, -1);
	return rc;
}

#define SEND(name, mode)                                                                           \
	GCK_MPI_FUNCTION(name, (MESSAGE))                                                          \
	{                                                                                          \
		int rc;                                                                            \
                                                                                                   \
		gck_mpi_enter();                                                                   \
		rc = send_blocking(mode, buf, count, type, dest, tag, comm);                       \
		gck_mpi_leave();                                                                   \
		return gck_mpi_error(comm, rc, "MPI_" #name);                                      \
	}

SEND(Send, GCK_MPI_SEND_STANDARD)
SEND(Bsend, GCK_MPI_SEND_BUFFERED)
SEND(Ssend, GCK_MPI_SEND_SYNCHRONOUS)
SEND(Rsend, GCK_MPI_SEND_READY)

#define ISEND(name, mode)                                                                          \
	GCK_MPI_FUNCTION(name, (MESSAGE, MPI_Request *request))                                    \
	{                                                                                          \
		int rc;                                                                            \
                                                                                                   \
		if (!request)                                                                      \
			return gck_mpi_error(comm, MPI_ERR_REQUEST, "MPI_" #name);                 \
		gck_mpi_enter();                                                                   \
		rc = send_new(mode, buf, count, type, dest, tag, comm,                             \
			      (struct gck_mpi_request **)request);                                 \
		gck_mpi_leave();                                                                   \
		return gck_mpi_error(comm, rc, "MPI_" #name);                                      \
	}

ISEND(Isend, GCK_MPI_SEND_STANDARD)
ISEND(Ibsend, GCK_MPI_SEND_BUFFERED)
ISEND(Issend, GCK_MPI_SEND_SYNCHRONOUS)
ISEND(Irsend, GCK_MPI_SEND_READY)

GCK_MPI_FUNCTION(Irecv, (void *buf, int count, MPI_Datatype type, int source, int tag,
			 MPI_Comm comm, MPI_Request *request))
{
	struct gck_mpi_request *r;
	int rc;

	if (!request)
		return gck_mpi_error(comm, MPI_ERR_REQUEST, "MPI_Irecv");
	gck_mpi_enter();
	r = gck_mpi_recv_new(buf, count, type, source, tag, comm);
	rc = r ? recv_post(r) : MPI_ERR_NO_MEM;
	if (!rc) {
		gck_mpi_request_ref_type(r);
		*request = (MPI_Request)r;
	} else if (r) {
		gck_mpi_request_release(r);
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Irecv");
}

GCK_MPI_FUNCTION(Recv, (void *buf, int count, MPI_Datatype type, int source, int tag,
			MPI_Comm comm, MPI_Status *status))
{
	struct gck_mpi_request *r;
	int rc;

	gck_mpi_enter();
	r = gck_mpi_recv_new(buf, count, type, source, tag, comm);
	rc = r ? recv_post(r) : MPI_ERR_NO_MEM;
	if (!rc) {
		gck_mpi_request_wait(r);
		gck_mpi_status_put(status, &r->status);
		rc = r->status.MPI_ERROR;
	}
	if (r)
		gck_mpi_request_release(r);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Recv");
}

/* Checks the arguments of a send before the receive is posted, which might already have its message
 * when the send fails. Only for suspicious arguments is the real library asked. */
static int check_send(MESSAGE)
{
	bool valid_peer = gck_mpi_comm_world_rank(gck_mpi_comm_of(comm), dest) >= 0;

	if (valid_peer && count >= 0 && tag >= 0 && !gck_mpi_tag_is_own(tag) &&
	    gck_mpi_is(type, GCK_MPI_DATATYPE))
		return MPI_SUCCESS;
	if (gck_mpi_tag_is_own(tag))
		return MPI_ERR_TAG;
	if (gck_mpi_comm_of(comm)->dynamic)
		return MPI_SUCCESS;
	return gck_mpi_real.Send(buf, count, GCK_MPI_REAL_TYPE(type),
				 valid_peer ? MPI_PROC_NULL : dest, tag, GCK_MPI_REAL_COMM(comm));
}

/* Posts the receive, then sends. */
static int exchange(struct gck_mpi_request *r, MESSAGE, MPI_Status *status)
{
	int rc = r ? check_send(buf, count, type, dest, tag, comm) : MPI_ERR_NO_MEM;

	if (!rc)
		rc = recv_post(r);
	if (rc) {
		if (r)
			gck_mpi_request_release(r);
		return rc;
	}
	rc = send_blocking(GCK_MPI_SEND_STANDARD, buf, count, type, dest, tag, comm);
	if (rc) {
		gck_mpi_request_cancel(r);
		gck_mpi_request_let_go(r);
		return rc;
	}
	gck_mpi_request_wait(r);
	gck_mpi_status_put(status, &r->status);
	rc = r->status.MPI_ERROR;
	gck_mpi_request_release(r);
	return rc;
}

GCK_MPI_FUNCTION(Sendrecv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
			    int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
			    int source, int recvtag, MPI_Comm comm, MPI_Status *status))
{
	int rc;

	gck_mpi_enter();
	rc = exchange(gck_mpi_recv_new(recvbuf, recvcount, recvtype, source, recvtag, comm),
		      sendbuf, sendcount, sendtype, dest, sendtag, comm, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Sendrecv");
}

/* Sends a copy, in packed form: the bytes on the wire are the same. */
static int exchange_packed(void *buf, int count, MPI_Datatype type, int dest, int sendtag,
			   int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	char small[1024], *copy = small;
	int size = 0, packed_size = 0, rc;

	rc = gck_mpi_real.Pack_size(count, GCK_MPI_REAL_TYPE(type), GCK_MPI_REAL_COMM(comm), &size);
	if (rc)
		return rc;
	if ((size_t)size > sizeof(small) && !(copy = malloc((size_t)size)))
		return MPI_ERR_NO_MEM;
	rc = gck_mpi_real.Pack(buf, count, GCK_MPI_REAL_TYPE(type), copy, size, &packed_size,
			       GCK_MPI_REAL_COMM(comm));
	if (!rc)
		rc = exchange(gck_mpi_recv_new(buf, count, type, source, recvtag, comm), copy,
			      packed_size, MPI_PACKED, dest, sendtag, comm, status);
	if (copy != small)
		free(copy);
	return rc;
}

GCK_MPI_FUNCTION(Sendrecv_replace, (void *buf, int count, MPI_Datatype type, int dest, int sendtag,
				    int source, int recvtag, MPI_Comm comm, MPI_Status *status))
{
	int rc;

	gck_mpi_enter();
	rc = exchange_packed(buf, count, type, dest, sendtag, source, recvtag, comm, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Sendrecv_replace");
}

/* ---- MPI_Bsend's buffer --------------------------------------------------------------------- */

/* The buffer of MPI_Bsend. The real library keeps messages in it and its records of them elsewhere.
 * In a quiesce all of them arrive, so a restart only needs to attach the buffer again. */
static void *attached_buffer;
static int attached_size;

GCK_MPI_FUNCTION(Buffer_attach, (void *buffer, int size))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Buffer_attach(buffer, size);
	if (!rc) {
		attached_buffer = buffer;
		attached_size = size;
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Buffer_attach");
}

/* The real function waits until the buffer is empty; the receivers' quiesce empties it as well. */
GCK_MPI_FUNCTION(Buffer_detach, (void *buffer, int *size))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.Buffer_detach(buffer, size);
	if (!rc)
		attached_buffer = NULL;
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Buffer_detach");
}

int gck_mpi_buffer_reattach(struct gck_error *err)
{
	if (attached_buffer && gck_mpi_real.Buffer_attach(attached_buffer, attached_size))
		return gck_fail(err, EIO,
				"the buffer of MPI_Bsend (%d bytes at %p) cannot be attached again "
				"after a restart",
				attached_size, attached_buffer);
	return 0;
}
