/* SPDX-License-Identifier: Apache-2.0
 * Threads of ours in the fake ranks (fakes.h), which say what a test wants: MPI's, and CUDA's
 * where a test connects them. */
#ifndef AGENT_TEST_THREADS_H
#define AGENT_TEST_THREADS_H

#include "coordinator/agent/node/node.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/test/fakes.h"

#define HEAD offsetof(struct gck_link_mpi, data)

extern int threads[FAKE_RANKS]; /* their ends of the links; -1: none */

/* A link of a rank's MPI thread, which says HELLO. */
void thread_connect(unsigned rank, uint32_t restored);

/* The link ends, if there is one. */
void thread_leave(unsigned rank);

/* It is past MPI_Finalize now, and says so. */
void thread_outside(unsigned rank);

/* A new agent, whose ranks all have such a link. */
void threads_begin(void);
void threads_end(void);

/* A new agent in a restart of ranks that all have MPI, or CUDA, and are let go: true, it waits
 * for what their threads, which are connected, bring back. */
bool threads_restart(unsigned timeout_ms, bool cuda, void (*connect)(unsigned rank));

/* One packet as it is, and a message of so many bytes. */
void thread_send(unsigned rank, const struct gck_link_mpi *m, size_t size);
void thread_say(unsigned rank, uint32_t type, uint32_t round, uint32_t value, size_t size);

/* What it was told since the last look: how many messages of a type. */
int thread_heard(unsigned rank, uint32_t type);

/* The next packet that it was told, and the descriptors that came along (-1: none). */
bool thread_given(unsigned rank, struct gck_link_mpi *m, int fds[2]);

/* Is the agent's answer a failure with this text? */
bool answer_says(const json_t *answer, const char *text);

#endif
