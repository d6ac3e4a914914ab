/* SPDX-License-Identifier: Apache-2.0
 * An agent for tests of the shim: listens, starts ranks with the preload in them, and serves their
 * links. Every wait has a deadline. A failure of the test's environment ends the test. */
#ifndef GCK_TEST_SHIM_AGENT_H
#define GCK_TEST_SHIM_AGENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "shim/link.h"

#define WAIT_MS 60000

struct agent {
	int listener;
	char name[64];
	/* a CUDA thread's link that connected while another one was expected; 0: none */
	int cuda;
	struct gck_thread_msg cuda_hello;
};

struct rank {
	pid_t pid;
	int in, out, err; /* the test's ends of the rank's streams; -1: the rank has the test's */
};

/* Listen under a name of this process; after close(listener), under the same name again. */
void agent_listen(struct agent *a);

/* Run argv as a rank. restarts: GPUCKPT_RESTARTS, or NULL. pipes: connect its streams to r.in,
 * r.out and r.err. */
struct rank agent_run(const struct agent *a, const char *restarts, char *const argv[], bool pipes);

/* Accept a link within ms: its fd, HELLO and peer (may be NULL); -1: there is none. */
int agent_accept(struct agent *a, int ms, struct gck_link_hello *hello, pid_t *peer);

/* Receive a packet within WAIT_MS: its type; 0: the link has ended; -1: none came. */
int agent_receive(int link, struct gck_link_msg *m);
void agent_send(int link, int type, int32_t pid);

/* Accept a CUDA thread's link within ms: its fd and first message; -1: there is none. */
int agent_accept_cuda(struct agent *a, int ms, struct gck_thread_msg *hello);

/* Accept a RECLAIM within ms: the connection for the answer, and the packet; -1: there is none. */
int agent_accept_reclaim(struct agent *a, int ms, struct gck_thread_msg *request);

/* Accept a link and send GO. */
int agent_admit(struct agent *a, struct gck_link_hello *hello);

/* Have the rank make one system call; its result. */
long agent_call(int link, long nr, long a, long b, long c, long d);

/* Send LEASE. Whether the rank has a lease within WAIT_MS, or has none. */
void agent_lease(int link, uint32_t ms);
bool agent_sees_lease(pid_t pid, bool there);

/* Send CLONE. *life: our end of the clone's life. Returns the pid of the answer. */
int agent_clone(int link, int *life);

/* Only send that message, of type CLONE; it may have calls. 0; -EPIPE: the link has ended. */
int agent_ask_clone(int link, struct gck_link_msg *m, int *life);

/* Whether the clone reports within WAIT_MS that it is frozen. */
bool agent_frozen(int life);

/* Stop every thread of a rank except the helper: how many, in tids. Let them run again. */
int agent_freeze(pid_t pid, pid_t helper, pid_t *tids, int capacity);
void agent_thaw(const pid_t *tids, int n);

/* Read a process's memory; zeros if the process has ended. */
void agent_peek(pid_t pid, uint64_t address, void *data, size_t size);

/* Write a line to a rank and read its answer, without the newline. "": none within WAIT_MS. */
const char *rank_ask(const struct rank *r, const char *line);
const char *rank_line(int fd, int ms);

/* Wait for a rank's end: its exit status, or 256 + the signal. */
int rank_end(struct rank *r);

/* Whether a process exists and is no zombie; wait until it ends. */
bool process_runs(pid_t pid);
bool process_ends(pid_t pid);

void pause_ms(int ms);

#endif
