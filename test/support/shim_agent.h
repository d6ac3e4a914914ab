/* SPDX-License-Identifier: Apache-2.0
 * An agent for the preload's tests: listens, starts ranks with the preload in them, speaks the
 * link. Every wait has a deadline; failures of the test's own surroundings end the test. */
#ifndef GCK_TEST_SHIM_AGENT_H
#define GCK_TEST_SHIM_AGENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "shim/link.h"

#define WAIT_MS 60000

struct agent {
	int listener;
	char name[64];
	/* The CUDA thread's link that came while another was waited for; 0: none. */
	int cuda;
	struct gck_thread_msg cuda_hello;
};

struct rank {
	pid_t pid;
	int in, out, err; /* in: written by the test; out, err: read; -1: the test's own */
};

/* Listen under a name of this process's. Again, after close(listener): under the same name. */
void agent_listen(struct agent *a);

/* Run argv as a rank. restarts: GPUCKPT_RESTARTS, NULL to leave it out. */
struct rank agent_run(const struct agent *a, const char *restarts, char *const argv[], bool pipes);

/* A new link within ms: its fd and HELLO; -1 if there is none. peer may be NULL. */
int agent_accept(struct agent *a, int ms, struct gck_link_hello *hello, pid_t *peer);

/* The next packet within WAIT_MS: its type, 0 at the end of the link. */
int agent_receive(int link, struct gck_link_msg *m);
void agent_send(int link, int type, int32_t pid);

/* A CUDA thread's link within ms: its fd and first message; -1 if there is none. */
int agent_accept_cuda(struct agent *a, int ms, struct gck_thread_msg *hello);

/* A RECLAIM within ms: the connection to answer on, and its packet; -1: there is none. */
int agent_accept_reclaim(struct agent *a, int ms, struct gck_thread_msg *request);

/* accept and GO. */
int agent_admit(struct agent *a, struct gck_link_hello *hello);

/* Have one system call run; its result. */
long agent_call(int link, long nr, long a, long b, long c, long d);

/* CLONE. The other end of the clone's life goes to *life; the answer's pid. */
int agent_clone(int link, int *life);

/* Whether the clone says within WAIT_MS that it is frozen. */
bool agent_frozen(int life);

/* Stop every thread of a rank but the helper, and let them go again. The number of threads. */
int agent_freeze(pid_t pid, pid_t helper, pid_t *tids, int room);
void agent_thaw(const pid_t *tids, int n);

/* Bytes of a process's memory; zeros if it is gone. */
void agent_peek(pid_t pid, uint64_t address, void *data, size_t size);

/* Write a line to a rank, read the answer's line (without the newline). "" after WAIT_MS. */
const char *rank_ask(const struct rank *r, const char *line);
const char *rank_line(int fd, int ms);

/* Wait for a rank's end: exit status, or 256 + the signal. */
int rank_end(struct rank *r);

/* Whether a process is there, and not as a zombie; wait until it is not. */
bool process_runs(pid_t pid);
bool process_ends(pid_t pid);

void pause_ms(int ms);

#endif
