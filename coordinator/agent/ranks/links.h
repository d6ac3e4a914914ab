/* SPDX-License-Identifier: Apache-2.0
 * Connections of the ranks' shims (shim/link.h). A peer is a rank if the kernel says that it is one
 * of the pids that the plugin named. */
#ifndef AGENT_LINKS_H
#define AGENT_LINKS_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

/* What links hand on to the layers above. */
struct links_ops {
	/* A rank asks for a checkpoint. */
	void (*ask)(struct agent *a, struct task *t, const struct gck_link_ask *m);
	/* Process pid's connection is not a shim's: m, size bytes of it, was its first packet. fd is the callee's
	 * to close. */
	void (*adopt)(struct agent *a, int fd, pid_t pid, const struct gck_link_mpi *m, size_t size);
};

struct links {
	struct agent *agent;
	const struct links_ops *ops;
	struct link *first;
	ev_io listener;
	bool foreign;            /* a process of another user has connected */
};

struct link {
	struct link *next;
	struct links *all;
	int fd;
	pid_t pid;               /* of the peer */
	struct task *task;       /* NULL: not (yet) known to be a rank */
	struct gck_link_hello hello;
	bool greeted;            /* HELLO came */
	bool waiting;            /* and has no answer yet but HOLD */
	bool held;               /* HOLD was sent */
	bool lent;               /* a worker uses the fd */
	ev_io io;
	ev_timer limit;          /* for the HELLO, and for the pid to be named */
};

/* Serve the listening socket. NULL without memory. */
struct links *links_start(struct agent *a, const struct links_ops *ops);
void links_stop(struct links *all);

/* A task was named: its shim may be waiting for that. */
void links_task_named(struct links *all);

/* The gate has changed: answer whoever waits. */
void links_answer(struct links *all);

/* A worker takes over the link, and gives it back: clean says that no request is unanswered. A link
 * that is not clean is closed: the shim then ends what its worker left and connects again. By task,
 * since the shim may have replaced the link in the meantime. */
void link_lend(struct link *l);
void link_return(struct task *t, bool clean);
void link_close(struct link *l);

/* A rank that waits is to leave with this exit status. */
void link_dismiss(struct link *l, int status);

#endif
