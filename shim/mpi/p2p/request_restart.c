// SPDX-License-Identifier: Apache-2.0
/* Requests over a restart. No sends exist then: all messages were taken in. */
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/p2p/flushed.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request_pool.h"

struct list {
	struct gck_mpi_request **r;
	size_t n, capacity;
	bool failed;
};

static void collect(struct gck_mpi_request *r, void *arg)
{
	struct list *l = arg;

	if (l->n == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : 64;
		struct gck_mpi_request **grown = realloc(l->r, capacity * sizeof(*grown));

		if (!grown) {
			l->failed = true;
			return;
		}
		l->r = grown;
		l->capacity = capacity;
	}
	l->r[l->n++] = r;
}

static int by_order(const void *a, const void *b)
{
	uint64_t x = (*(struct gck_mpi_request *const *)a)->order,
		 y = (*(struct gck_mpi_request *const *)b)->order;

	return (x > y) - (x < y);
}

static int fail(const struct gck_mpi_request *r, int rc, struct gck_error *err)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	gck_mpi_real.Error_string(rc, text, &length);
	return gck_fail(err, EIO,
			"a pending %s (peer %d, tag %d, %d elements) cannot be made again after a "
			"restart: %s",
			r->persistent ? "persistent request" : "receive", r->peer, r->tag, r->count,
			text);
}

/* Makes the real request again, if it had one. */
static int renew_request(struct gck_mpi_request *r, struct gck_error *err)
{
	bool pending = r->state == GCK_MPI_REQUEST_ACTIVE;
	int rc = MPI_SUCCESS;

	if (r->what == GCK_MPI_REQUEST_GENERAL)
		return 0;
	r->h.real = NULL;
	if (r->what == GCK_MPI_REQUEST_CLASS) {
		if ((pending || r->persistent) && r->class->reissue && r->class->reissue(r, err))
			return -1;
	} else if (r->persistent) {
		rc = gck_mpi_persistent_make(r);
	} else if (pending && !r->from) {
		rc = gck_mpi_recv_post_real(r);
	}
	if (!rc && pending && r->persistent && (r->what == GCK_MPI_REQUEST_CLASS || !r->from))
		rc = gck_mpi_real.Start((MPI_Request *)&r->h.real);
	if (!rc && pending && r->cancelled)
		rc = gck_mpi_real.Cancel((MPI_Request *)&r->h.real);
	return rc ? fail(r, rc, err) : 0;
}

static int rebuild(struct gck_error *err)
{
	struct list l = { NULL };
	int rc = gck_mpi_flushed_init(true, err) || gck_mpi_buffer_reattach(err) ? -1 : 0;

	if (rc)
		return rc;
	gck_mpi_request_each(collect, &l);
	if (l.failed)
		rc = gck_fail(err, ENOMEM, "no memory for a list of %zu pending requests", l.n);
	if (l.n)
		qsort(l.r, l.n, sizeof(*l.r), by_order);
	for (size_t i = 0; !rc && i < l.n; i++)
		rc = renew_request(l.r[i], err);
	free(l.r);
	return rc;
}

const struct gck_mpi_participant gck_mpi_request_participant = {
	.name = "request",
	.rebuild = rebuild,
};
