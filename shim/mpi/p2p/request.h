/* SPDX-License-Identifier: Apache-2.0
 * Requests. Those of messages are ours throughout; other parts (non-blocking collectives, MPI-IO,
 * request-based RMA) lend theirs a class. A request is complete when this library has seen it so:
 * the real one is gone then (or inactive, if persistent), and the status is kept here until the
 * program asks. All functions: in the gate. */
#ifndef GCK_MPI_REQUEST_H
#define GCK_MPI_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/mpi/handles/handle.h"

enum gck_mpi_request_state {
	GCK_MPI_REQUEST_FREE,     /* a place for one */
	GCK_MPI_REQUEST_INACTIVE, /* persistent, not started */
	GCK_MPI_REQUEST_ACTIVE,
	GCK_MPI_REQUEST_COMPLETE, /* its status waits for the program */
};

enum gck_mpi_request_what {
	GCK_MPI_REQUEST_SEND,
	GCK_MPI_REQUEST_RECV,
	GCK_MPI_REQUEST_MATCHED, /* receives a message that was matched before: Imrecv */
	GCK_MPI_REQUEST_GENERAL, /* a generalized request: no real one */
	GCK_MPI_REQUEST_CLASS,   /* another part's */
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

/* Of another part's requests. Each function may be NULL. */
struct gck_mpi_request_class {
	const char *name;
	/* It ends without anything that other ranks' programs do, so a quiesce waits for it. One
	 * that does not is left alone by the quiesce, unless its part polls it. */
	bool ends_alone;
	/* The real one was seen complete (once; r->status is set). */
	void (*completed)(struct gck_mpi_request *r);
	/* Of a persistent one: MPI_Start is called; the real request is started next. An MPI error. */
	int (*starts)(struct gck_mpi_request *r);
	/* That failed: it was not started after all. */
	void (*not_started)(struct gck_mpi_request *r);
	/* After a restart: set h.real. Of those still active, in the order in which they started; of
	 * persistent ones in any state, inactive: those that were active are then started. */
	int (*reissue)(struct gck_mpi_request *r, struct gck_error *err);
	/* The place is given back: free r->arg. */
	void (*freed)(struct gck_mpi_request *r);
};

struct gck_mpi_request {
	struct gck_mpi_handle h; /* real: NULL unless the real library has it */
	uint8_t state, what, mode;
	bool persistent;
	bool refs;               /* on to its type */
	bool orphan;             /* the program has freed it while active */
	bool cancelled;          /* the program has asked so */
	int count, peer, tag;
	void *buf;
	MPI_Datatype type;
	MPI_Comm comm;           /* or whose error handler counts; NULL: MPI_COMM_WORLD's */
	uint64_t order;          /* of starting */
	MPI_Status status;       /* once complete; MPI_ERROR is what it ended with */
	union {
		struct gck_mpi_flushed *from;    /* what it receives, if that was flushed; or NULL */
		struct gck_mpi_general *general; /* (grequest.c) */
		void *arg;                       /* the class's */
	};
	const struct gck_mpi_request_class *class;
	struct gck_mpi_request *next_free;
};

/* Another part's request, active. Then call the real library with (MPI_Request *)&r->h.real, and
 * give (MPI_Request)r to the program or, if the call failed, gck_mpi_request_free it. on: the
 * communicator, window or file that it works on. NULL: no memory. */
struct gck_mpi_request *gck_mpi_request_start(const struct gck_mpi_request_class *class, void *on,
					      void *arg);

/* The same, persistent and inactive. */
struct gck_mpi_request *gck_mpi_request_persistent(const struct gck_mpi_request_class *class,
						   void *on, void *arg);

/* Is it complete by now? Asks the real library, which makes progress meanwhile. An orphan that is
 * complete is gone afterwards. */
bool gck_mpi_request_poll(struct gck_mpi_request *r);

/* Polls until it is complete; parks between two polls while the gate is closed. */
void gck_mpi_request_wait(struct gck_mpi_request *r);

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

/* MPI_Cancel, and MPI_Request_free: the program is done with it, whatever its state. */
int gck_mpi_request_cancel(struct gck_mpi_request *r);
int gck_mpi_request_let_go(struct gck_mpi_request *r);

/* Orphans that are complete go. */
void gck_mpi_request_reap(void);

/* Progress, with nothing to ask for. */
void gck_mpi_progress(void);

#endif
