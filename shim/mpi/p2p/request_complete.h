/* SPDX-License-Identifier: Apache-2.0
 * Between request.c and the functions that wait and test. */
#ifndef GCK_MPI_REQUEST_COMPLETE_H
#define GCK_MPI_REQUEST_COMPLETE_H

#include "shim/mpi/p2p/request.h"

/* Has the program anything to wait for there: neither null nor inactive? */
static inline bool gck_mpi_request_open(MPI_Request request)
{
	const struct gck_mpi_request *r = (const void *)request;

	return request != MPI_REQUEST_NULL && r->state != GCK_MPI_REQUEST_INACTIVE;
}

static inline bool gck_mpi_request_is_complete(const struct gck_mpi_request *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == GCK_MPI_REQUEST_COMPLETE;
}

/* Of an active one: is it for the real library to say how it stands? */
static inline bool gck_mpi_request_in_real(const struct gck_mpi_request *r)
{
	return r->what == GCK_MPI_REQUEST_CLASS || (r->what != GCK_MPI_REQUEST_GENERAL && !r->from);
}

/* Every element of an array of the program's is a request (or null). Else an MPI error. */
int gck_mpi_requests_check(int n, const MPI_Request *requests);

/* The request ended with rc, and r->status says how. */
void gck_mpi_request_complete(struct gck_mpi_request *r, int rc);

/* The same, as the real library says: a receive has its message. */
void gck_mpi_request_arrived(struct gck_mpi_request *r, int rc);

/* The program is told of a complete request: it is inactive then, or gone and *request null.
 * status (not to be ignored) is filled, MPI_ERROR too. Returns what it ended with. */
int gck_mpi_request_collect(MPI_Request *request, MPI_Status *status);

/* One look at all of them. */
struct gck_mpi_sweep {
	int open;  /* neither null nor inactive */
	int first; /* the first that is complete; -1: none */
};

struct gck_mpi_sweep gck_mpi_request_sweep(int n, const MPI_Request *requests);

/* MPI_Cancel, and MPI_Request_free: the program is done with it, whatever its state. */
int gck_mpi_request_cancel(struct gck_mpi_request *r);
int gck_mpi_request_let_go(struct gck_mpi_request *r);

/* Orphans that are complete go. */
void gck_mpi_request_reap(void);

/* Progress, with nothing to ask for. */
void gck_mpi_progress(void);

/* Generalized requests: what their owner says. */
int gck_mpi_general_query(struct gck_mpi_request *r);
int gck_mpi_general_free(struct gck_mpi_request *r);
int gck_mpi_general_cancel(struct gck_mpi_request *r);

#endif
