/* SPDX-License-Identifier: Apache-2.0
 * Requests. Those of messages are implemented here; other parts (non-blocking collectives, MPI-IO,
 * request-based RMA) pass a class of functions for theirs. A request is complete when this library
 * has seen its real one complete: that is gone then (or inactive, if persistent), and the status is
 * kept here until the program collects it. All functions run in the gate. */
#ifndef GCK_MPI_REQUEST_H
#define GCK_MPI_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

enum gck_mpi_request_state {
	GCK_MPI_REQUEST_FREE,     /* unused */
	GCK_MPI_REQUEST_INACTIVE, /* persistent, not started */
	GCK_MPI_REQUEST_ACTIVE,
	GCK_MPI_REQUEST_COMPLETE, /* its status waits for the program */
};

enum gck_mpi_request_what {
	GCK_MPI_REQUEST_SEND,
	GCK_MPI_REQUEST_RECV,
	GCK_MPI_REQUEST_MATCHED, /* receives a matched message: MPI_Imrecv */
	GCK_MPI_REQUEST_GENERAL, /* a generalized request, without a real one */
	GCK_MPI_REQUEST_CLASS,   /* of another part */
};

enum gck_mpi_send_mode {
	GCK_MPI_SEND_STANDARD,
	GCK_MPI_SEND_BUFFERED,
	GCK_MPI_SEND_SYNCHRONOUS,
	GCK_MPI_SEND_READY,
};

struct gck_mpi_request;
struct gck_mpi_flushed;
struct gck_mpi_general;

/* The functions of another part's requests. Each may be NULL. */
struct gck_mpi_request_class {
	const char *name;
	/* It ends whatever other ranks' programs do, so a quiesce waits for it. The quiesce ignores
	 * other requests unless their part polls them. */
	bool ends_alone;
	/* Polls it, as gck_mpi_request_poll; NULL: the real library has it. */
	bool (*poll)(struct gck_mpi_request *r);
	/* The real one was seen complete (once; r->status is set). */
	void (*completed)(struct gck_mpi_request *r);
	/* Persistent: called by MPI_Start before the real request is started. An MPI error code. */
	int (*starts)(struct gck_mpi_request *r);
	/* Undo starts: the real request was not started. */
	void (*not_started)(struct gck_mpi_request *r);
	/* After a restart: set h.real. Called for active requests in the order of their start and
	 * for all persistent ones, whose real request is made inactive and, if active, started
	 * next. */
	int (*reissue)(struct gck_mpi_request *r, struct gck_error *err);
	/* The request is freed: free r->arg. */
	void (*freed)(struct gck_mpi_request *r);
};

struct gck_mpi_request {
	struct gck_mpi_handle h; /* real: NULL unless the real library has it */
	uint8_t state, what, mode;
	bool persistent;
	bool holds_type;         /* it holds a reference to its type */
	bool orphan;             /* the program freed it while it was active */
	bool cancelled;          /* the program called MPI_Cancel */
	int count, peer, tag;
	void *buf;
	MPI_Datatype type;
	MPI_Comm comm;           /* or object with the error handler; NULL: MPI_COMM_WORLD's */
	uint64_t order;          /* of its start among all requests */
	MPI_Status status;       /* when complete; MPI_ERROR is its result */
	union {
		struct gck_mpi_flushed *from;    /* the flushed message that it receives, or NULL */
		struct gck_mpi_general *general; /* in request.c */
		void *arg;                       /* of the class */
	};
	const struct gck_mpi_request_class *class;
	struct gck_mpi_request *next_free;
};

/* Makes an active request of another part. The caller then calls the real library with
 * (MPI_Request *)&r->h.real and gives (MPI_Request)r to the program or, if that failed, frees it by
 * gck_mpi_request_free. on: its communicator, window or file. NULL: no memory. */
GCK_MUST_CHECK struct gck_mpi_request *
gck_mpi_request_start(const struct gck_mpi_request_class *class, void *on, void *arg);

/* The same, persistent and inactive. */
GCK_MUST_CHECK struct gck_mpi_request *
gck_mpi_request_persistent(const struct gck_mpi_request_class *class, void *on, void *arg);

/* True if it is complete. Tests it in the real library, which makes progress. An orphan that is
 * complete is freed. */
bool gck_mpi_request_poll(struct gck_mpi_request *r);

/* Tests an active request in the real library. For the polls of classes. */
bool gck_mpi_request_poll_real(struct gck_mpi_request *r);

/* Polls until it is complete; parks between two polls while the gate is closed. */
void gck_mpi_request_wait(struct gck_mpi_request *r);

/* True if the program can wait for it: it is neither null nor inactive. */
static inline bool gck_mpi_request_open(MPI_Request request)
{
	const struct gck_mpi_request *r = (const void *)request;

	return request != MPI_REQUEST_NULL && r->state != GCK_MPI_REQUEST_INACTIVE;
}

static inline bool gck_mpi_request_is_complete(const struct gck_mpi_request *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == GCK_MPI_REQUEST_COMPLETE;
}

/* True if the state of this active request is the real library's alone. */
static inline bool gck_mpi_request_in_real(const struct gck_mpi_request *r)
{
	if (r->what == GCK_MPI_REQUEST_CLASS)
		return !r->class->poll;
	return r->what != GCK_MPI_REQUEST_GENERAL && !r->from;
}

/* Checks that every element of the program's array is a request (or null). An MPI error code. */
GCK_MUST_CHECK int gck_mpi_requests_check(int n, const MPI_Request *requests);

/* Completes the request with rc; r->status is set. */
void gck_mpi_request_complete(struct gck_mpi_request *r, int rc);

/* The same for a request that the real library completed; counts a received message. */
void gck_mpi_request_arrived(struct gck_mpi_request *r, int rc);

/* Reports a complete request to the program: it is then inactive, or gone and *request null. Fills
 * status (not MPI_STATUS_IGNORE) with MPI_ERROR. Returns the request's result. */
GCK_MUST_CHECK int gck_mpi_request_collect(MPI_Request *request, MPI_Status *status);

/* MPI_Cancel, and MPI_Request_free in any state. Return MPI error codes. */
int gck_mpi_request_cancel(struct gck_mpi_request *r);
int gck_mpi_request_let_go(struct gck_mpi_request *r);

/* Frees orphans that are complete. Returns the cost, in looks at a request (base/sweep.h). */
size_t gck_mpi_request_reap(void);

/* Makes the real library progress without testing a request. */
void gck_mpi_progress(void);

#endif
