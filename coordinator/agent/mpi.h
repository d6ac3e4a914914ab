/* SPDX-License-Identifier: Apache-2.0
 * The MPI threads of this node's ranks, each with a link of its own beside its shim's (shim/link.h).
 * What they say is data from outside. */
#ifndef AGENT_MPI_H
#define AGENT_MPI_H

#include "coordinator/agent/agent.h"
#include "shim/link.h"

struct mpi_packet;

/* Of one rank, from MPI_Init to MPI_Finalize: task->mpi. */
struct mpi_link {
	struct agent *agent;
	struct task *task;
	int fd;
	ev_io in, out;
	struct gck_link_mpi_hello hello;
	struct gck_link_mpi head;  /* of the message that is coming in */
	unsigned char *data;
	size_t have;
	struct mpi_packet *first, **last; /* what is on its way out */
	size_t queued;
	json_t *items;             /* what stands in the way, as it said last */
	bool looked;               /* it has said all of it */
};

/* A connection of process pid whose first packet was an MPI thread's HELLO. A newer link of a rank
 * replaces the older. */
void mpi_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size);
void mpi_close(struct mpi_link *l);

/* Send a message with m's type, seq, round and value. Never waits; a rank that does not read is
 * closed. */
void mpi_send(struct mpi_link *l, const struct gck_link_mpi *m, const void *data, size_t size);

/* Ranks of this node that use MPI, and whether the words of all can go through PMIx. */
unsigned mpi_count(const struct agent *a, bool *pmix);

/* Ask all of them what stands in the way: task->mpi->items, once ->looked. */
void mpi_look(struct agent *a);
bool mpi_looked(const struct agent *a);

#endif
