// SPDX-License-Identifier: Apache-2.0
/* Probes, and the messages that they match. */
#include "shim/mpi/p2p/message.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/status.h"

struct message {
	struct gck_mpi_handle h;      /* real: NULL once the message is in our memory */
	MPI_Comm comm;
	struct gck_mpi_flushed *from;
	MPI_Status status;
};

/* ---- probes --------------------------------------------------------------------------------- */

/* Probes once; flushed messages come first. */
static int probe_once(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	MPI_Status found;
	int rc;

	*flag = gck_mpi_flushed_probe(comm, source, tag, &found);
	if (!*flag) {
		rc = gck_mpi_real.Iprobe(source, tag, GCK_MPI_REAL_COMM(comm), flag, &found);
		if (rc)
			return rc;
	}
	if (*flag)
		gck_mpi_status_put(status, &found);
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status))
{
	int rc;

	if (!flag)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Iprobe");
	gck_mpi_enter();
	rc = probe_once(source, tag, comm, flag, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Iprobe");
}

GCK_MPI_FUNCTION(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status))
{
	int rc, flag;

	gck_mpi_enter();
	while (!(rc = probe_once(source, tag, comm, &flag, status)) && !flag)
		gck_mpi_park_if_closed();
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Probe");
}

/* Makes a message that the real library has matched (real) or that was flushed (from); the other
 * one is NULL. Returns NULL if there is no memory. */
static MPI_Message message_new(MPI_Comm comm, MPI_Message real, struct gck_mpi_flushed *from,
			       const MPI_Status *status)
{
	struct message *m = gck_mpi_handle_new(GCK_MPI_MESSAGE, sizeof(*m), real);

	if (!m)
		return NULL;
	m->comm = comm;
	m->from = from;
	m->status = *status;
	gck_mpi_comm_of(comm)->messages++;
	return (MPI_Message)m;
}

/* The same for a matched probe, which takes the message out of matching. */
static int mprobe_once(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
		       MPI_Status *status)
{
	MPI_Message real = NULL;
	MPI_Status found;
	struct gck_mpi_flushed *d = gck_mpi_flushed_take(comm, source, tag, &found);
	int rc = MPI_SUCCESS;

	*flag = d != NULL;
	if (!d)
		rc = gck_mpi_real.Improbe(source, tag, GCK_MPI_REAL_COMM(comm), flag, &real,
					  &found);
	if (rc || !*flag)
		return rc;
	gck_mpi_status_put(status, &found);
	if (found.MPI_SOURCE == MPI_PROC_NULL)
		*message = MPI_MESSAGE_NO_PROC;
	else
		*message = message_new(comm, real, d, &found);
	return *message ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

GCK_MPI_FUNCTION(Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
			   MPI_Status *status))
{
	int rc;

	if (!flag || !message)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Improbe");
	gck_mpi_enter();
	rc = mprobe_once(source, tag, comm, flag, message, status);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Improbe");
}

GCK_MPI_FUNCTION(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message,
			  MPI_Status *status))
{
	int rc, flag;

	if (!message)
		return gck_mpi_error(comm, MPI_ERR_ARG, "MPI_Mprobe");
	gck_mpi_enter();
	while (!(rc = mprobe_once(source, tag, comm, &flag, message, status)) && !flag)
		gck_mpi_park_if_closed();
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Mprobe");
}

/* ---- matched messages ----------------------------------------------------------------------- */

int gck_mpi_messages_take_in(size_t *arriving, struct gck_error *err)
{
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_MESSAGE); h; h = h->next) {
		struct message *m = (struct message *)h;

		if (h->real) {
			m->from = gck_mpi_flushed_read(m->comm, (MPI_Message *)&h->real,
						       &m->status);
			if (!m->from)
				return gck_fail(err, ENOMEM,
						"no memory for a matched message of %zu bytes from "
						"rank %d: give the job more memory, or let it "
						"receive the message before the checkpoint",
						m->status._ucount, m->status.MPI_SOURCE);
			h->real = NULL;
		}
		if (m->from)
			*arriving += !gck_mpi_flushed_arrived(m->from);
	}
	return 0;
}

static bool is_held(const MPI_Message *message)
{
	return message && gck_mpi_is(*message, GCK_MPI_MESSAGE) &&
	       !(((struct gck_mpi_handle *)*message)->flags & GCK_MPI_NULL);
}

/* Begins the receive of a matched message; on success *message is set to null. */
static int begin(void *buf, int count, MPI_Datatype type, MPI_Message *message,
		 struct gck_mpi_request **made)
{
	struct message *m = (struct message *)*message;
	struct gck_mpi_request *r = gck_mpi_recv_new(buf, count, type, 0, 0, NULL);
	int rc = MPI_SUCCESS;

	if (!r)
		return MPI_ERR_NO_MEM;
	r->what = GCK_MPI_REQUEST_MATCHED;
	r->state = GCK_MPI_REQUEST_ACTIVE;
	if (*message == MPI_MESSAGE_NO_PROC) {
		rc = gck_mpi_real.Irecv(buf, count, GCK_MPI_REAL_TYPE(type), MPI_PROC_NULL,
					MPI_ANY_TAG, GCK_MPI_REAL_COMM(MPI_COMM_SELF),
					(MPI_Request *)&r->h.real);
	} else {
		r->comm = m->comm;
		r->from = m->from;
		if (r->from)
			rc = gck_mpi_recv_check(buf, count, type, MPI_ANY_TAG, MPI_COMM_SELF);
		else
			rc = gck_mpi_real.Imrecv(buf, count, GCK_MPI_REAL_TYPE(type),
						 (MPI_Message *)&m->h.real,
						 (MPI_Request *)&r->h.real);
	}
	if (rc) {
		gck_mpi_request_release(r);
		return rc;
	}
	if (*message != MPI_MESSAGE_NO_PROC) {
		gck_mpi_comm_of(m->comm)->messages--; /* r uses the communicator now */
		gck_mpi_handle_free(m);
	}
	*message = MPI_MESSAGE_NULL;
	*made = r;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Imrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message,
			  MPI_Request *request))
{
	struct gck_mpi_request *r;
	int rc;

	if (!is_held(message) || !request)
		return gck_mpi_error(NULL, MPI_ERR_REQUEST, "MPI_Imrecv");
	gck_mpi_enter();
	rc = begin(buf, count, type, message, &r);
	if (!rc) {
		gck_mpi_request_ref_type(r);
		*request = (MPI_Request)r;
	}
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Imrecv");
}

GCK_MPI_FUNCTION(Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message,
			 MPI_Status *status))
{
	struct gck_mpi_request *r;
	MPI_Comm comm = NULL;
	int rc;

	if (!is_held(message))
		return gck_mpi_error(NULL, MPI_ERR_REQUEST, "MPI_Mrecv");
	gck_mpi_enter();
	rc = begin(buf, count, type, message, &r);
	if (!rc) {
		comm = r->comm;
		gck_mpi_request_wait(r);
		gck_mpi_status_put(status, &r->status);
		rc = r->status.MPI_ERROR;
		gck_mpi_request_release(r);
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Mrecv");
}
