/* SPDX-License-Identifier: Apache-2.0
 * Messages that a quiesce took in before the program received them. They are kept in our memory,
 * per communicator in the order in which the real library would have matched them; receives and
 * probes see them before later messages. The queues grow only while the gate is closed and no
 * thread is inside; a caller that finds no match there asks the real library. */
#ifndef GCK_MPI_FLUSHED_H
#define GCK_MPI_FLUSHED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "shim/mpi/comm/comm.h"

struct gck_mpi_flushed {
	struct gck_mpi_flushed *next;
	MPI_Comm comm;
	MPI_Status status;  /* as a probe returns it */
	void *arriving;     /* the real request that receives the data; NULL: it has ended */
	int error;          /* of that request */
	size_t size;
	unsigned char data[];
};

/* The number of messages in all queues. */
extern _Atomic unsigned long gck_mpi_flushed_count;

static inline bool gck_mpi_flushed_any(void)
{
	return atomic_load_explicit(&gck_mpi_flushed_count, memory_order_relaxed) != 0;
}

/* Finds the first message that matches and, with take, removes it from its queue; NULL: none. */
GCK_MUST_CHECK struct gck_mpi_flushed *gck_mpi_flushed_find(MPI_Comm comm, int source, int tag,
							    bool take, MPI_Status *status);

/* Takes the first message that matches out of its queue; NULL: none. */
static inline struct gck_mpi_flushed *gck_mpi_flushed_take(MPI_Comm comm, int source, int tag,
							   MPI_Status *status)
{
	if (__builtin_expect(!gck_mpi_flushed_any(), 1))
		return NULL;
	return gck_mpi_flushed_find(comm, source, tag, true, status);
}

/* Probes for the first message that matches; it stays in its queue. */
static inline bool gck_mpi_flushed_probe(MPI_Comm comm, int source, int tag, MPI_Status *status)
{
	if (__builtin_expect(!gck_mpi_flushed_any(), 1))
		return false;
	return gck_mpi_flushed_find(comm, source, tag, false, status);
}

/* True if all of its data has arrived; the message is then counted as received. */
bool gck_mpi_flushed_arrived(struct gck_mpi_flushed *d);

/* Copies a message that has arrived to a receive's buffer and frees it. Returns the receive's error
 * code and fills its status. */
GCK_MUST_CHECK int gck_mpi_flushed_deliver(struct gck_mpi_flushed *d, void *buf, int count,
					   MPI_Datatype type, MPI_Status *status);

/* Frees the messages of a communicator that is gone, which can no longer be received. */
void gck_mpi_flushed_free_all(struct gck_mpi_comm *c);

/* ---- the MPI thread ---- */

/* Takes in all messages that have come for this communicator. */
GCK_MUST_CHECK int gck_mpi_flushed_take_in(MPI_Comm comm, struct gck_error *err);

/* Reads a matched message (the real handle and the probe's status) into our memory; it is in no
 * queue. NULL: no memory, and the message is unchanged. */
GCK_MUST_CHECK struct gck_mpi_flushed *gck_mpi_flushed_read(MPI_Comm comm,
							    MPI_Message *real_message,
							    const MPI_Status *status);

/* Makes progress on messages arriving in this communicator's queue; returns how many still are. */
size_t gck_mpi_flushed_arriving(const struct gck_mpi_comm *c);

/* Prepares the real communicator for deliveries. again: the copy that had the last one is dead. */
GCK_MUST_CHECK int gck_mpi_flushed_init(bool again, struct gck_error *err);

#endif
