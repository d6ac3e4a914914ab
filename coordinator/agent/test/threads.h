/* SPDX-License-Identifier: Apache-2.0
 * MPI threads of the fake ranks (fakes.h), which say what a test wants. */
#ifndef AGENT_TEST_THREADS_H
#define AGENT_TEST_THREADS_H

#include "coordinator/agent/mpi.h"
#include "coordinator/agent/test/fakes.h"

#define HEAD offsetof(struct gck_link_mpi, data)

extern int threads[FAKE_RANKS]; /* their ends of the links */

/* A link of a rank's MPI thread, which says HELLO. */
void thread_connect(unsigned rank, uint32_t restored);

/* It is past MPI_Finalize now, and says so. */
void thread_outside(unsigned rank);

/* A new agent, whose ranks all have such a link. */
void threads_begin(void);
void threads_end(void);

/* One packet as it is, and a message of so many bytes. */
void thread_send(unsigned rank, const struct gck_link_mpi *m, size_t size);
void thread_say(unsigned rank, uint32_t type, uint32_t round, uint32_t value, size_t size);

/* What it was told since the last look: how many messages of a type. */
int thread_heard(unsigned rank, uint32_t type);

/* Is the agent's answer a failure with this text? */
bool answer_says(const json_t *answer, const char *text);

#endif
