/* SPDX-License-Identifier: Apache-2.0
 * Messages that a quiesce took in before the program asked for them. They are kept in our memory,
 * per communicator in the order in which the real library would have matched them, and go to
 * receives and probes before anything that is still to come. The queues grow only while the gate is
 * closed and no thread is inside; a caller that finds nothing there goes on to the real library. */
#ifndef GCK_MPI_FLUSHED_H
#define GCK_MPI_FLUSHED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "shim/mpi/comm/comm.h"

struct gck_mpi_flushed {
	struct gck_mpi_flushed *next;
	MPI_Comm comm;
	MPI_Status status;  /* as a probe gives it */
	void *arriving;     /* the real request that brings the data; NULL: all is here */
	int error;          /* with which that ended */
	size_t size;
	unsigned char data[];
};

/* Messages in the queues, of all communicators. */
extern _Atomic unsigned long gck_mpi_flushed_count;

static inline bool gck_mpi_flushed_any(void)
{
	return atomic_load_explicit(&gck_mpi_flushed_count, memory_order_relaxed) != 0;
}

struct gck_mpi_flushed *gck_mpi_flushed_look(MPI_Comm comm, int source, int tag, bool take,
					     MPI_Status *status);

/* Takes the first message that matches out of its queue; NULL: none does. */
static inline struct gck_mpi_flushed *gck_mpi_flushed_take(MPI_Comm comm, int source, int tag,
							   MPI_Status *status)
{
	if (__builtin_expect(!gck_mpi_flushed_any(), 1))
		return NULL;
	return gck_mpi_flushed_look(comm, source, tag, true, status);
}

/* Says what it is, and leaves it there. */
static inline bool gck_mpi_flushed_probe(MPI_Comm comm, int source, int tag, MPI_Status *status)
{
	if (__builtin_expect(!gck_mpi_flushed_any(), 1))
		return false;
	return gck_mpi_flushed_look(comm, source, tag, false, status);
}

/* Has all of its data come? Counts the message as received when it has. */
bool gck_mpi_flushed_here(struct gck_mpi_flushed *d);

/* Puts a message that is here where a receive wants it, and frees it. Returns what the receive
 * returns, status is the receive's. */
int gck_mpi_flushed_deliver(struct gck_mpi_flushed *d, void *buf, int count, MPI_Datatype type,
			    MPI_Status *status);

/* A communicator is gone: frees its messages, which can no longer be received. */
void gck_mpi_flushed_forget(struct gck_mpi_comm *c);

/* ---- the MPI thread ---- */

/* Takes in all that has come for this communicator. */
int gck_mpi_flushed_fill(MPI_Comm comm, struct gck_error *err);

/* Reads a matched message (the real handle, and what the probe said) into our memory, in no queue.
 * NULL: no memory, and the message is as it was. */
struct gck_mpi_flushed *gck_mpi_flushed_read(MPI_Comm comm, MPI_Message *real_message,
					     const MPI_Status *status);

/* Brings on what is arriving in this communicator's queue; how many of it are not here yet. */
size_t gck_mpi_flushed_arriving(const struct gck_mpi_comm *c);

/* Prepares what deliveries need of the real library. again: the copy used before is dead. */
int gck_mpi_flushed_ready(bool again, struct gck_error *err);

#endif
