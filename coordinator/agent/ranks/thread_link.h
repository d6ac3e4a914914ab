/* SPDX-License-Identifier: Apache-2.0
 * The links of our threads in this node's ranks, MPI's and CUDA's: each beside the shim's own, in
 * packets of struct gck_link_mpi (shim/link.h). What they say is data from outside. */
#ifndef AGENT_THREAD_LINK_H
#define AGENT_THREAD_LINK_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

struct thread_packet;
struct thread_link;

struct thread_kind {
	const char *name;                            /* "MPI" */
	struct thread_link **(*slot)(struct task *); /* where a task has its link of this kind */
	void (*take)(struct thread_link *l);         /* a message: head and data; l may be closed */
	void (*lost)(struct agent *a, struct task *t); /* it ended by itself, and is gone */
};

struct thread_link {
	const struct thread_kind *kind;
	struct agent *agent;
	struct task *task;
	struct thread_link **slot;
	int fd;
	ev_io in, out;
	struct gck_link_mpi_hello hello;  /* MPI's */
	struct gck_link_mpi head;         /* of the message that is coming in */
	unsigned char *data;
	size_t have;
	struct thread_packet *first, **last; /* what is on its way out */
	size_t queued;
	json_t *items;                    /* what stands in the way, as it said last */
	bool looked;                      /* it has said all of it */
};

/* A connection of process pid, and its first packet. A newer link of a rank replaces the older. */
void thread_link_adopt(struct agent *a, int fd, pid_t pid, const struct thread_kind *kind,
		       const struct gck_link_mpi *m, size_t size);
void thread_link_close(struct thread_link *l);

/* It broke off, or said what cannot be. */
void thread_link_lost(struct thread_link *l);

/* Send a message with m's type, seq, round and value. Never waits; a rank that does not read is
 * closed. */
void thread_link_send(struct thread_link *l, const struct gck_link_mpi *m, const void *data,
		      size_t size);

/* Send a message without data that brings descriptors, which are closed here (and then -1). */
void thread_link_give(struct thread_link *l, const struct gck_link_mpi *m, int fds[GCK_LINK_DATA_FDS]);

/* Take an item of an answer to what stands in the way. */
void thread_link_item(struct thread_link *l);

/* Ask all threads of all ranks; has each that has a link answered? */
void thread_links_look(struct agent *a);
bool thread_links_looked(const struct agent *a);

/* Ranks of this node that use MPI. *pmix: the words of all of them can go through PMIx. */
unsigned thread_links_mpi(const struct agent *a, bool *pmix);

/* Of a message with a value: the error that it tells. */
void thread_link_failure(const struct thread_link *l, struct gck_error *err);

#endif
