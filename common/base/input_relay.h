/* SPDX-License-Identifier: Apache-2.0
 * What is said to the relay of a task's standard input (coordinator/input): packets over a
 * SEQPACKET socket, which listens under an abstract name made of the inode of the task's pipe. So
 * whoever sees the pipe finds its relay. Plain libc. */
#ifndef GCK_INPUT_RELAY_H
#define GCK_INPUT_RELAY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum gck_input_op {
	GCK_INPUT_COUNT = 1, /* only the answer is wanted */
	GCK_INPUT_SKIP,      /* the task continues at byte `bytes` of its input: what was not handed
			      * over yet is discarded up to there. The sender takes what lies before
			      * it out of the pipe. */
};

struct gck_input_message {
	uint32_t op;
	uint32_t ended;  /* answer: the input has ended */
	uint64_t bytes;  /* SKIP: where to continue; answer: bytes taken from the input so far */
};

/* The relay's descriptors at exec; all others are closed, and all signals are ignored. Its argument
 * is the task's PID. */
enum {
	GCK_INPUT_SOURCE,   /* the pipe from slurmstepd */
	GCK_INPUT_SINK,     /* the task's pipe */
	GCK_INPUT_TASK,     /* a pidfd of the task */
	GCK_INPUT_LISTENER,
	GCK_INPUT_FDS
};

/* The address for a pipe's inode; returns its length. */
socklen_t gck_input_address(uint64_t inode, struct sockaddr_un *a);

/* Ask the relay of this pipe; m is the question, then the answer. -1 with errno: ECONNREFUSED if
 * there is none, EPERM if another user listens under its name. */
int gck_input_ask(uint64_t inode, struct gck_input_message *m) __attribute__((warn_unused_result));

#endif
