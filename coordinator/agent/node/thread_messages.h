/* SPDX-License-Identifier: Apache-2.0
 * The MPI threads of this node's ranks. */
#ifndef AGENT_THREAD_MESSAGES_H
#define AGENT_THREAD_MESSAGES_H

#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/ranks/thread_link.h"

/* A connection whose first packet was an MPI thread's HELLO: task->mpi, from there on. */
void mpi_adopt(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size);

/* Takes what shims' links hand on: requests for a checkpoint, threads' connections, needs of device memory. */
extern const struct links_ops thread_messages;

/* Ranks of this node that use MPI, and whether the words of all can go through PMIx. */
unsigned mpi_count(const struct agent *a, bool *pmix);

/* Ask all of them what stands in the way: task->mpi->items, once ->looked. */
void mpi_look(struct agent *a);
bool mpi_looked(const struct agent *a);

#endif
