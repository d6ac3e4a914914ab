// SPDX-License-Identifier: Apache-2.0
/* The queues of flushed messages: filled in a quiesce, emptied by receives and probes. */
#include "shim/mpi/p2p/flushed.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim/mpi/handles/attribute_predefined.h"
#include "shim/mpi/p2p/request_pool.h"
#include "shim/mpi/real.h"

_Atomic unsigned long gck_mpi_flushed_count;

/* lock guards the queues. A delivery is a message to this rank itself; delivery serializes them, so
 * that no receive gets another's message. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, delivery = PTHREAD_MUTEX_INITIALIZER;

/* A real communicator of this rank alone, used only for deliveries. */
static MPI_Comm delivery_comm;

static bool matches(const struct gck_mpi_flushed *d, int source, int tag)
{
	return (source == MPI_ANY_SOURCE || source == d->status.MPI_SOURCE) &&
	       (tag == MPI_ANY_TAG || tag == d->status.MPI_TAG);
}

struct gck_mpi_flushed *gck_mpi_flushed_find(MPI_Comm comm, int source, int tag, bool take,
					     MPI_Status *status)
{
	struct gck_mpi_comm *c = gck_mpi_comm_of(comm);
	struct gck_mpi_flushed *d, *before = NULL;

	pthread_mutex_lock(&lock);
	for (d = c->flushed; d && !matches(d, source, tag); d = d->next)
		before = d;
	if (d)
		*status = d->status;
	if (d && take) {
		*(before ? &before->next : &c->flushed) = d->next;
		if (c->flushed_last == d)
			c->flushed_last = before;
		gck_mpi_flushed_count--;
	}
	pthread_mutex_unlock(&lock);
	return d;
}

static void append(struct gck_mpi_comm *c, struct gck_mpi_flushed *d)
{
	pthread_mutex_lock(&lock);
	*(c->flushed_last ? &c->flushed_last->next : &c->flushed) = d;
	c->flushed_last = d;
	gck_mpi_flushed_count++;
	pthread_mutex_unlock(&lock);
}

void gck_mpi_flushed_free_all(struct gck_mpi_comm *c)
{
	struct gck_mpi_flushed *d;

	pthread_mutex_lock(&lock);
	while ((d = c->flushed)) {
		c->flushed = d->next;
		gck_mpi_flushed_count--;
		if (!d->arriving) /* else the real library still writes to it */
			free(d);
	}
	c->flushed_last = NULL;
	pthread_mutex_unlock(&lock);
}

/* Describes n bytes by a count of a real type. More than INT_MAX bytes need a new type, which the
 * caller frees: *made, else NULL. */
static int describe_bytes(size_t n, int *count, MPI_Datatype *type, MPI_Datatype *made)
{
	const size_t block = 1 << 20;
	int lengths[2] = { 1, (int)(n % block) }, rc;
	MPI_Aint at[2] = { 0, (MPI_Aint)(n - n % block) };
	MPI_Datatype parts[2] = { NULL, GCK_MPI_REAL_TYPE(MPI_BYTE) }, blocks;

	*count = (int)n;
	*type = parts[1];
	*made = NULL;
	if (n <= INT_MAX)
		return MPI_SUCCESS;
	rc = gck_mpi_real.Type_contiguous((int)block, parts[1], &blocks);
	if (!rc)
		rc = gck_mpi_real.Type_contiguous((int)(n / block), blocks, &parts[0]);
	if (!rc)
		rc = gck_mpi_real.Type_create_struct(2, lengths, at, parts, made);
	if (!rc)
		rc = gck_mpi_real.Type_commit(made);
	if (rc)
		return rc;
	gck_mpi_real.Type_free(&blocks);
	gck_mpi_real.Type_free(&parts[0]);
	*count = 1;
	*type = *made;
	return MPI_SUCCESS;
}

int gck_mpi_flushed_deliver(struct gck_mpi_flushed *d, void *buf, int count, MPI_Datatype type,
			    MPI_Status *status)
{
	MPI_Datatype sent, made;
	MPI_Request send;
	int n, rc;

	pthread_mutex_lock(&delivery);
	rc = describe_bytes(d->size, &n, &sent, &made);
	/* in this order: a receive that waits for its message does not report truncation */
	if (!rc)
		rc = gck_mpi_real.Isend(d->data, n, sent, 0, 0, delivery_comm, &send);
	if (!rc) {
		rc = gck_mpi_real.Recv(buf, count, GCK_MPI_REAL_TYPE(type), 0, 0, delivery_comm,
				       status);
		gck_mpi_real.Wait(&send, MPI_STATUS_IGNORE);
	}
	if (made)
		gck_mpi_real.Type_free(&made);
	pthread_mutex_unlock(&delivery);
	status->MPI_SOURCE = d->status.MPI_SOURCE;
	status->MPI_TAG = d->status.MPI_TAG;
	status->_cancelled = 0;
	rc = rc ? rc : d->error;
	free(d);
	return rc;
}

static void set_arrived(struct gck_mpi_flushed *d)
{
	d->arriving = NULL;
	gck_mpi_count_received(d->comm, d->status.MPI_SOURCE);
}

bool gck_mpi_flushed_arrived(struct gck_mpi_flushed *d)
{
	MPI_Request request = d->arriving;
	int flag = 0;

	if (!request)
		return true;
	d->error = gck_mpi_real.Test(&request, &flag, MPI_STATUS_IGNORE);
	if (!flag && !d->error)
		return false;
	set_arrived(d);
	return true;
}

static struct gck_mpi_flushed *new_flushed(MPI_Comm comm, const MPI_Status *status)
{
	struct gck_mpi_flushed *d = malloc(sizeof(*d) + status->_ucount);

	if (d)
		*d = (struct gck_mpi_flushed){ .comm = comm, .status = *status,
					       .size = status->_ucount };
	return d;
}

/* Begins to receive the data of a matched message. */
static void begin_receive(struct gck_mpi_flushed *d, MPI_Message *real_message)
{
	MPI_Datatype type, made;
	MPI_Request request = NULL;
	int n;

	d->error = describe_bytes(d->size, &n, &type, &made);
	if (!d->error)
		d->error = gck_mpi_real.Imrecv(d->data, n, type, real_message, &request);
	if (made)
		gck_mpi_real.Type_free(&made);
	d->arriving = request;
	if (d->error)
		set_arrived(d); /* the receive that gets it returns the error */
	else
		gck_mpi_flushed_arrived(d);
}

struct gck_mpi_flushed *gck_mpi_flushed_read(MPI_Comm comm, MPI_Message *real_message,
					     const MPI_Status *status)
{
	struct gck_mpi_flushed *d = new_flushed(comm, status);

	if (d)
		begin_receive(d, real_message);
	return d;
}

static int fail(struct gck_error *err, MPI_Comm comm, const char *call, int rc)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	gck_mpi_real.Error_string(rc, text, &length);
	return gck_fail(err, EIO,
			"messages under way cannot be taken in: %s on communicator %016llx: %s; "
			"the checkpoint is aborted",
			call, (unsigned long long)gck_mpi_comm_of(comm)->clock.id, text);
}

/* Takes in the message that a probe found. */
static int take_one(MPI_Comm comm, MPI_Status *status, struct gck_error *err)
{
	struct gck_mpi_flushed *d = new_flushed(comm, status);
	MPI_Message message;
	int flag, rc;

	if (!d)
		return gck_fail(err, ENOMEM,
				"no memory for a message under way of %zu bytes from rank %d: give "
				"the job more memory, or let it receive the message before the "
				"checkpoint",
				status->_ucount, status->MPI_SOURCE);
	rc = gck_mpi_real.Improbe(status->MPI_SOURCE, status->MPI_TAG, GCK_MPI_REAL_COMM(comm),
				  &flag, &message, status);
	if (rc || !flag) {
		free(d);
		return fail(err, comm, "MPI_Improbe", rc ? rc : MPI_ERR_INTERN);
	}
	begin_receive(d, &message);
	append(gck_mpi_comm_of(comm), d);
	return 0;
}

/* Takes in messages. 0: none is left; 1: the next is the real library's own; -1: failed. */
static int take_from(MPI_Comm comm, int source, struct gck_error *err)
{
	MPI_Status status;
	int flag, rc;

	for (;;) {
		rc = gck_mpi_real.Iprobe(source, MPI_ANY_TAG, GCK_MPI_REAL_COMM(comm), &flag,
					 &status);
		if (rc)
			return fail(err, comm, "MPI_Iprobe", rc);
		if (!flag)
			return 0;
		if (gck_mpi_tag_is_own(status.MPI_TAG))
			return 1;
		if (take_one(comm, &status, err))
			return -1;
	}
}

/* The real library's own messages belong to a call that this rank has not reached, and stay there.
 * Their sender is inside that call, so its earlier messages are in front of them. */
int gck_mpi_flushed_take_in(MPI_Comm comm, struct gck_error *err)
{
	int rc = take_from(comm, MPI_ANY_SOURCE, err);

	if (rc <= 0)
		return rc;
	for (int i = 0; i < gck_mpi_comm_of(comm)->npeers; i++)
		if (take_from(comm, i, err) < 0)
			return -1;
	return 0;
}

size_t gck_mpi_flushed_arriving(const struct gck_mpi_comm *c)
{
	size_t n = 0;

	for (struct gck_mpi_flushed *d = c->flushed; d; d = d->next)
		n += !gck_mpi_flushed_arrived(d);
	return n;
}

int gck_mpi_flushed_init(bool again, struct gck_error *err)
{
	int rc;

	if (again)
		delivery_comm = NULL;
	if (delivery_comm)
		return 0;
	rc = gck_mpi_real.Comm_dup(GCK_MPI_REAL_COMM(MPI_COMM_SELF), &delivery_comm);
	if (!rc)
		rc = gck_mpi_real.Comm_set_errhandler(
			delivery_comm, (MPI_Errhandler)gck_mpi_real_handle(MPI_ERRORS_RETURN,
									   GCK_MPI_ERRHANDLER));
	return rc ? fail(err, MPI_COMM_SELF, "MPI_Comm_dup", rc) : 0;
}
