/* SPDX-License-Identifier: Apache-2.0
 * Processes that the agent forks for what blocks: workers, restorers, jobs in the store. Each has a
 * SEQPACKET socketpair with the agent (packet.h), dies with it, and is told apart by what it was
 * made for. */
#ifndef AGENT_CHILD_H
#define AGENT_CHILD_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"

struct child;

struct child_ops {
	/* In the new process: its work. fd is its end of the socketpair. The exit status. */
	int (*run)(int fd, void *arg);
	/* In the agent: a packet came (borrowed). */
	void (*message)(void *data, const json_t *body);
	/* In the agent: it has ended, with the status as from wait, and every packet was handed on.
	 * Called once, the last that is heard of it; the struct is freed afterwards. */
	void (*end)(void *data, int status);
};

#define CHILD_KEEP_MAX 5

/* Fork. arg is for run (a copy as of the fork), data for message and end. keep: up to CHILD_KEEP_MAX
 * descriptors that the process needs beside its socket (-1: none); all others but 0..2 are closed in
 * it. */
struct child *child_start(struct ev_loop *loop, const struct child_ops *ops, void *arg,
			  const int *keep, size_t nkeep, void *data, struct gck_error *err);

/* Send it a packet (the reference is dropped). A child that is gone or takes none is not an error
 * here: its end is reported anyway. */
void child_tell(struct child *c, json_t *body);

/* Send it a sign of life, unless it has a packet to read: they would fill the socket of one that is in a write for
 * minutes. */
void child_remind(struct child *c, json_t *body);

/* End it: what SIGKILL does to a worker harms no rank. `end` follows. */
void child_kill(struct child *c);

/* Nobody is interested any more: kill it and call nothing. */
void child_forget(struct child *c);

/* "killed by signal 9", "exit status 1". */
const char *child_status_text(int status, char *buf, size_t size);

#endif
