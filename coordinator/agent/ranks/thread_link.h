/* SPDX-License-Identifier: Apache-2.0
 * Links of our threads in this node's ranks, beside the shim's own (shim/link.h): one of a rank's
 * MPI thread, and one of the CUDA thread in each of its processes that uses CUDA. What they send is
 * untrusted. */
#ifndef AGENT_THREAD_LINK_H
#define AGENT_THREAD_LINK_H

#include "coordinator/agent/base/agent.h"
#include "shim/link.h"

struct thread_packet;
struct thread_link;

struct thread_kind {
	const char *name;                            /* "MPI" */
	bool single;                                 /* one process of a rank may have one */
	struct thread_link **(*slot)(struct task *); /* a task's list of links of this kind */
	void (*take)(struct thread_link *l);         /* a message came: head and data; it may
						      * close l */
	void (*lost)(const struct thread_link *l);   /* it ended by itself, is in no list any more,
						      * and is freed afterwards */
};

struct thread_link {
	struct thread_link *next;           /* of the task's, of this kind */
	const struct thread_kind *kind;
	struct agent *agent;
	struct task *task;
	struct thread_link **slot;
	pid_t pid;                          /* of the rank, or of a descendant */
	int fd;
	ev_io in, out;
	struct gck_link_mpi_hello hello;  /* of an MPI thread */
	pid_t number;                     /* of a CUDA thread's process: the program's */
	struct gck_thread_msg head;         /* of the message that is being received */
	unsigned char *data;
	size_t have;
	struct thread_packet *first, **last; /* packets to send */
	size_t queued;
	json_t *items;                    /* obstacles to a checkpoint, as it said last */
	bool looked;                      /* it has said all of them */
	uint32_t queued_ms;               /* of a CUDA thread: GPU work was queued for as long */
};

/* Takes over a connection of process pid, and its first packet. A newer link of a process replaces
 * the older. If the kind is single, another process of the rank that runs and has one keeps it. */
void thread_link_adopt(struct agent *a, int fd, pid_t pid, const struct thread_kind *kind,
		       const struct gck_thread_msg *m, size_t size);
void thread_link_close(struct thread_link *l);

/* The link of a process in a task's list; NULL: it has none. */
struct thread_link *thread_link_of(struct thread_link *first, pid_t pid);

/* The pid of the link's process for a worker of the rank. */
pid_t thread_link_number(const struct thread_link *l);

/* Closes a link that broke off or broke the rules, and reports it as lost. */
void thread_link_lost(struct thread_link *l);

/* Sends a message with m's type, seq, round and value. Never waits; a link that is not read is
 * closed. */
void thread_link_send(struct thread_link *l, const struct gck_thread_msg *m, const void *data,
		      size_t size);

/* Sends a message without data, with descriptors, which are closed here (and set to -1). */
void thread_link_give(struct thread_link *l, const struct gck_thread_msg *m,
		      int fds[GCK_LINK_DATA_FDS]);

/* Takes an item of the answer to a look for obstacles. */
void thread_link_item(struct thread_link *l);

/* Asks all threads of all ranks for obstacles to a checkpoint. Has each that has a link
 * answered? */
void thread_links_look(struct agent *a);
bool thread_links_looked(const struct agent *a);

/* Ranks of this node that use MPI. *pmix: the words of all of them can go through PMIx. */
unsigned thread_links_mpi(const struct agent *a, bool *pmix);

/* Is this rank in MPI_Init? What the real library opens and starts there is not known to be its own
 * before the end. */
bool thread_link_in_init(const struct task *t);

/* The error in a message with a value. */
void thread_link_failure(const struct thread_link *l, struct gck_error *err);

#endif
