// SPDX-License-Identifier: Apache-2.0
/* MPI_Wait, MPI_Test and their forms for several requests. */
#include "shim/mpi/base/function.h"
#include "shim/mpi/p2p/p2p.h"
#include "shim/mpi/p2p/request.h"
#include "shim/mpi/p2p/request_batch.h"
#include "shim/mpi/p2p/status.h"

/* ---- several requests at once --------------------------------------------------------------- */

/* The result of polling several requests once. */
struct polled {
	int open;  /* neither null nor inactive */
	int first; /* the first that is complete; -1: none */
};

static struct polled poll_all(int n, const MPI_Request *requests)
{
	struct polled s = { .first = -1 };
	struct gck_mpi_request_batch b;

	for (int i = 0; i < n && s.first < 0; i++) {
		if (!gck_mpi_request_open(requests[i]))
			continue;
		s.open++;
		if (gck_mpi_request_is_complete((struct gck_mpi_request *)requests[i]))
			s.first = i;
	}
	if (!s.open || s.first >= 0)
		return s;
	b.n = 0;
	for (int i = 0; i < n; i++) {
		struct gck_mpi_request *r = (struct gck_mpi_request *)requests[i];

		if (gck_mpi_request_open(requests[i]))
			gck_mpi_request_batch_poll(&b, r);
	}
	gck_mpi_request_batch_end(&b);
	for (int i = 0; i < n && s.first < 0; i++)
		if (gck_mpi_request_open(requests[i]) &&
		    gck_mpi_request_is_complete((struct gck_mpi_request *)requests[i]))
			s.first = i;
	return s;
}

/* ---- MPI functions -------------------------------------------------------------------------- */

static MPI_Comm comm_of(MPI_Request request)
{
	return request == MPI_REQUEST_NULL ? NULL : ((struct gck_mpi_request *)request)->comm;
}

GCK_MPI_FUNCTION(Wait, (MPI_Request *request, MPI_Status *status))
{
	MPI_Comm comm = NULL;
	MPI_Status ended;
	int rc = MPI_SUCCESS;

	if (!request || !gck_mpi_is(*request, GCK_MPI_REQUEST))
		return gck_mpi_error(NULL, MPI_ERR_REQUEST, "MPI_Wait");
	gck_mpi_enter();
	if (gck_mpi_request_open(*request)) {
		comm = comm_of(*request);
		gck_mpi_request_wait((struct gck_mpi_request *)*request);
		rc = gck_mpi_request_collect(request, &ended);
		gck_mpi_status_put(status, &ended);
	} else {
		gck_mpi_status_empty(status);
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Wait");
}

GCK_MPI_FUNCTION(Test, (MPI_Request *request, int *flag, MPI_Status *status))
{
	MPI_Comm comm = NULL;
	MPI_Status ended;
	int rc = MPI_SUCCESS;

	if (!request || !flag || !gck_mpi_is(*request, GCK_MPI_REQUEST))
		return gck_mpi_error(NULL, flag ? MPI_ERR_REQUEST : MPI_ERR_ARG, "MPI_Test");
	gck_mpi_enter();
	*flag = 1;
	if (!gck_mpi_request_open(*request)) {
		gck_mpi_status_empty(status);
	} else if (gck_mpi_request_poll((struct gck_mpi_request *)*request)) {
		comm = comm_of(*request);
		rc = gck_mpi_request_collect(request, &ended);
		gck_mpi_status_put(status, &ended);
	} else {
		*flag = 0;
	}
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Test");
}

/* Reports all requests to the program: each is complete, null or inactive. */
static int collect_all(int n, MPI_Request *requests, MPI_Status *statuses, MPI_Comm *comm)
{
	int rc = MPI_SUCCESS;

	for (int i = 0; i < n; i++) {
		MPI_Status ended = GCK_MPI_STATUS_EMPTY;

		if (gck_mpi_request_open(requests[i])) {
			MPI_Comm its = comm_of(requests[i]);

			if (gck_mpi_request_collect(&requests[i], &ended)) {
				rc = MPI_ERR_IN_STATUS;
				*comm = its;
			}
		}
		if (statuses != MPI_STATUSES_IGNORE)
			statuses[i] = ended;
	}
	return rc;
}

GCK_MPI_FUNCTION(Waitall, (int count, MPI_Request requests[], MPI_Status *statuses))
{
	MPI_Comm comm = NULL;
	int rc = gck_mpi_requests_check(count, requests);

	if (rc)
		return gck_mpi_error(NULL, rc, "MPI_Waitall");
	gck_mpi_enter();
	for (int i = 0; i < count; i++)
		if (gck_mpi_request_open(requests[i]))
			gck_mpi_request_wait((struct gck_mpi_request *)requests[i]);
	rc = collect_all(count, requests, statuses, &comm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Waitall");
}

GCK_MPI_FUNCTION(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status *statuses))
{
	MPI_Comm comm = NULL;
	int rc = gck_mpi_requests_check(count, requests);

	if (rc || !flag)
		return gck_mpi_error(NULL, rc ? rc : MPI_ERR_ARG, "MPI_Testall");
	gck_mpi_enter();
	*flag = 1;
	for (int i = 0; i < count && *flag; i++)
		if (gck_mpi_request_open(requests[i]))
			*flag = gck_mpi_request_poll((struct gck_mpi_request *)requests[i]);
	if (*flag)
		rc = collect_all(count, requests, statuses, &comm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Testall");
}

/* Reports the first complete request and its *index to the program, or that all are null or
 * inactive. */
static int collect_any(struct polled s, MPI_Request *requests, int *index,
		       MPI_Status *status, MPI_Comm *comm)
{
	MPI_Status ended;
	int rc;

	if (!s.open) {
		*index = MPI_UNDEFINED;
		gck_mpi_status_empty(status);
		return MPI_SUCCESS;
	}
	*index = s.first;
	*comm = comm_of(requests[s.first]);
	rc = gck_mpi_request_collect(&requests[s.first], &ended);
	gck_mpi_status_put(status, &ended);
	return rc;
}

static struct polled poll_until_any(int n, MPI_Request *requests)
{
	struct polled s;

	for (;;) {
		s = poll_all(n, requests);
		if (!s.open || s.first >= 0)
			return s;
		gck_mpi_park_if_closed();
	}
}

GCK_MPI_FUNCTION(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status))
{
	MPI_Comm comm = NULL;
	int rc = gck_mpi_requests_check(count, requests);

	if (rc || !index)
		return gck_mpi_error(NULL, rc ? rc : MPI_ERR_ARG, "MPI_Waitany");
	gck_mpi_enter();
	rc = collect_any(poll_until_any(count, requests), requests, index, status, &comm);
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Waitany");
}

GCK_MPI_FUNCTION(Testany, (int count, MPI_Request requests[], int *index, int *flag,
			   MPI_Status *status))
{
	MPI_Comm comm = NULL;
	struct polled s;
	int rc = gck_mpi_requests_check(count, requests);

	if (rc || !index || !flag)
		return gck_mpi_error(NULL, rc ? rc : MPI_ERR_ARG, "MPI_Testany");
	gck_mpi_enter();
	s = poll_all(count, requests);
	*flag = !s.open || s.first >= 0;
	if (*flag)
		rc = collect_any(s, requests, index, status, &comm);
	else
		*index = MPI_UNDEFINED;
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, "MPI_Testany");
}

/* Reports all complete requests to the program. */
static int collect_some(int n, MPI_Request *requests, int *outcount, int *indices,
			MPI_Status *statuses, MPI_Comm *comm)
{
	int rc = MPI_SUCCESS, done = 0;

	for (int i = 0; i < n; i++) {
		MPI_Comm its;
		MPI_Status ended;

		if (!gck_mpi_request_open(requests[i]) ||
		    !gck_mpi_request_is_complete((struct gck_mpi_request *)requests[i]))
			continue;
		its = comm_of(requests[i]);
		if (gck_mpi_request_collect(&requests[i], &ended)) {
			rc = MPI_ERR_IN_STATUS;
			*comm = its;
		}
		if (statuses != MPI_STATUSES_IGNORE)
			statuses[done] = ended;
		indices[done++] = i;
	}
	*outcount = done;
	return rc;
}

static int some(int n, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses,
		bool wait, const char *function)
{
	MPI_Comm comm = NULL;
	struct polled s;
	int rc = gck_mpi_requests_check(n, requests);

	if (rc || !outcount || (n && !indices))
		return gck_mpi_error(NULL, rc ? rc : MPI_ERR_ARG, function);
	gck_mpi_enter_as(function);
	s = wait ? poll_until_any(n, requests) : poll_all(n, requests);
	if (s.open)
		rc = collect_some(n, requests, outcount, indices, statuses, &comm);
	else
		*outcount = MPI_UNDEFINED;
	gck_mpi_leave();
	return gck_mpi_error(comm, rc, function);
}

GCK_MPI_FUNCTION(Waitsome, (int incount, MPI_Request requests[], int *outcount, int indices[],
			    MPI_Status statuses[]))
{
	return some(incount, requests, outcount, indices, statuses, true, "MPI_Waitsome");
}

GCK_MPI_FUNCTION(Testsome, (int incount, MPI_Request requests[], int *outcount, int indices[],
			    MPI_Status statuses[]))
{
	return some(incount, requests, outcount, indices, statuses, false, "MPI_Testsome");
}
