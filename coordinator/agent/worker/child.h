/* SPDX-License-Identifier: Apache-2.0
 * Processes that the agent forks for work that blocks: workers, restorers, jobs in the store.
 * Each has a SEQPACKET socketpair with the agent (packet.h) and dies with it. */
#ifndef AGENT_CHILD_H
#define AGENT_CHILD_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"

struct child;

struct child_ops {
	/* In the new process: does the work and returns the exit status. fd is its end of the
	 * socketpair. */
	int (*run)(int fd, void *arg);
	/* In the agent: a packet came (borrowed). */
	void (*message)(void *data, const json_t *body);
	/* In the agent: the process has ended, with this wait status, and all its packets were
	 * handed on. Called once, as the last; the struct is freed afterwards. */
	void (*end)(void *data, int status);
};

/* Forks; into the namespaces of process `beside`, if it is not 0 (beside.h). arg is passed to run
 * as it is at the fork, data to message and end. keep: descriptors that the process needs beside
 * its socket (-1: none). All others but 0 to 2 are closed in it. */
struct child *child_start(struct ev_loop *loop, const struct child_ops *ops, void *arg,
			  pid_t beside, const int *keep, size_t nkeep, void *data,
			  struct gck_error *err) GCK_MUST_CHECK;

/* Sends it a packet (the reference is dropped). A child that is gone is no error here: its end
 * is reported anyway. */
void child_tell(struct child *c, json_t *body);

/* The same with a descriptor, which stays open here. */
void child_give(struct child *c, json_t *body, int given);

/* Sends it a sign of life, unless an unread packet waits: a child in a long write would fill its
 * socket. */
void child_remind(struct child *c, json_t *body);

/* Ends it by SIGKILL, which harms no rank. `end` follows. */
void child_kill(struct child *c);

/* Kills it and calls nothing more. */
void child_forget(struct child *c);

/* "killed by signal 9" or "exit status 1", in buf. */
const char *child_status_text(int status, char *buf, size_t size);

#endif
