/* SPDX-License-Identifier: Apache-2.0
 * Connections of the ranks' shims (shim/link.h). A peer is a rank if the kernel says that its pid
 * is one that the plugin named. */
#ifndef AGENT_LINKS_H
#define AGENT_LINKS_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

/* What links pass on to the files above them. */
struct links_ops {
	/* A rank asks for a checkpoint. */
	void (*ask)(struct agent *a, struct task *t, const struct gck_link_ask *m);
	/* A rank that holds has moved into a PID namespace (0), or cannot (an errno value). */
	void (*moved)(struct agent *a, const struct task *t, int code);
	/* A connection of process pid that is not a shim's: m, of size bytes, was its first
	 * packet. The callee closes fd. */
	void (*adopt)(struct agent *a, int fd, pid_t pid, const struct gck_thread_msg *m,
		      size_t size);
};

struct links {
	struct agent *agent;
	const struct links_ops *ops;
	struct link *first;
	ev_io listener;
	bool foreign;            /* a process of another user tried to connect */
};

struct link {
	struct link *next;
	struct links *all;
	int fd;
	pid_t pid;               /* of the peer */
	struct task *task;       /* NULL: not known to be a rank (yet) */
	struct gck_link_hello hello;
	bool greeted;            /* HELLO came */
	bool waiting;            /* its only answer so far is HOLD, or none */
	bool held;               /* HOLD was sent */
	bool lent;               /* a worker uses the fd */
	bool takes_lease;        /* GCK_LINK_TAKES_LEASE */
	ev_io io;
	ev_timer limit;          /* for the HELLO, and for the plugin to name the pid */
};

/* Serves the listening socket. NULL without memory. */
struct links *links_start(struct agent *a, const struct links_ops *ops) GCK_MUST_CHECK;
void links_stop(struct links *all);

/* A task was named: its shim may be waiting for that. */
void links_task_named(struct links *all);

/* The gate has changed: answers the shims that wait. */
void links_answer(struct links *all);

/* A worker takes over the link, and returns it. clean: no request is unanswered. A link that is
 * not clean is closed: the shim then ends what the worker left, and connects again. link_return
 * takes the task, since its shim may have replaced the link. */
void link_lend(struct link *l);
void link_return(struct task *t, bool clean);
void link_close(struct link *l);

/* Sends a packet of a type without more. */
int link_tell(struct link *l, enum gck_link_type type, int pid, uint32_t number);

/* Tells a rank that waits to exit with this status. */
void link_dismiss(struct link *l, int status);

#endif
