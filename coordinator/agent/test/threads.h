/* SPDX-License-Identifier: Apache-2.0
 * Our threads in the fake ranks (fakes.h), scripted by a test: MPI's, and CUDA's where a test
 * connects them. */
#ifndef AGENT_TEST_THREADS_H
#define AGENT_TEST_THREADS_H

#include "coordinator/agent/node/node.h"
#include "coordinator/agent/ranks/thread_link.h"
#include "coordinator/agent/test/fakes.h"

#define HEAD offsetof(struct gck_thread_msg, data)

#define THREAD_SECOND FAKE_RANKS /* of the first rank's second process (fake_second) */

extern int threads[FAKE_RANKS + 1]; /* their ends of the links; -1: none */

/* A rank's MPI thread connects, and says HELLO. */
void thread_connect(unsigned rank, uint32_t restored);

/* Its link ends, if there is one. */
void thread_leave(unsigned rank);

/* It says that the rank is in MPI_Init; done: that it has left it. */
void thread_initializes(unsigned rank, bool done);

/* It says that it is past MPI_Finalize. */
void thread_inactive(unsigned rank);

/* A new agent, whose ranks all have such a link. */
void threads_begin(void);
void threads_end(void);

/* A new agent in a restart of ranks that all have MPI, or CUDA, and were let go. Returns true if
 * it waits for what their threads, which are connected, bring back. */
bool threads_restart(unsigned timeout_ms, bool cuda, void (*connect)(unsigned rank));

/* Send one packet as it is; send a message of so many bytes. */
void thread_send(unsigned rank, const struct gck_thread_msg *m, size_t size);
void thread_say(unsigned rank, uint32_t type, uint32_t round, uint32_t value, size_t size);

/* How many messages of this type it was sent since the last call. */
int thread_heard(unsigned rank, uint32_t type);

/* The next packet that it was sent, and the descriptors with it (-1: none). */
bool thread_given(unsigned rank, struct gck_thread_msg *m, int fds[2]);

/* Is the agent's answer a failure with this text? */
bool answer_says(const json_t *answer, const char *text);

#endif
