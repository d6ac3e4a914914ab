/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on this node: one worker per rank, told together and answered for together.
 * Whatever fails lets all ranks go, and is the answer to every later command of the checkpoint. */
#ifndef AGENT_TRANSACTION_H
#define AGENT_TRANSACTION_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"

/* What ranks exchange in a round. */
struct words {
	unsigned char *v;
	size_t n;
};

struct quiesce {
	uint32_t via;             /* enum gck_link_mpi_via */
	uint32_t limit_ms;
	ev_tstamp began;          /* 0: it has not */
	uint32_t round, sent;     /* of this node's ranks; the last that was sent upstream */
	struct words ours, all;
};

/* What lower files report to phases.c, events.c and commands.c. */
struct transaction_ops {
	/* A rank is done with a step: the current phase may be complete. */
	void (*advance)(struct transaction *t);
	/* The GPUs of all ranks are drained: they can be stopped. */
	void (*drained)(struct transaction *t);
	/* A worker has answered phase p; has written or uploaded more; has staged its image (why:
	 * the reason if not all of it, else ""); has ended with this wait status. */
	void (*answered)(struct rank_checkpoint *m, enum phase p, const json_t *body);
	void (*progressed)(struct rank_checkpoint *m);
	void (*staged)(struct rank_checkpoint *m, const char *why);
	void (*worker_ended)(struct rank_checkpoint *m, int status);
	/* The rank is gone, or lost its CUDA thread and may be about to be: its status stands for
	 * its image as soon as it is known. */
	void (*await_status)(struct rank_checkpoint *m);
	/* The transaction is freed. This `prepare` (borrowed) waited for that. */
	void (*next)(struct agent *a, const json_t *prepare);
};

struct transaction {
	struct agent *agent;
	const struct transaction_ops *ops;
	uint32_t seq;
	char nonce[64];
	bool keep_held;
	bool leaves;              /* the coordinator may have had the job requeued; and in doubt,
				   * since it is silent: */
	bool doubted;
	bool requeued;            /* Slurm has requeued it, and ends its script */
	unsigned ending;          /* ticks since Slurm's SIGTERM was seen */
	bool held_write;          /* ranks are held until their images are written; known from
				   * freeze on */
	struct quiesce quiesce;
	double timeout_s, hold_s;
	uint32_t held_ms;         /* the longest time for which ranks are held */
	struct rank_checkpoint *ranks;
	size_t n;
	bool reserved, copied;    /* common_memory.c: workers were told */
	uint64_t counted_again;   /* bytes that more than one rank expects to write */
	uint64_t most_copied;     /* bytes of shared memory that one rank copies while held */
	enum phase asked;         /* the phase that the coordinator waits for; PHASES: none */
	json_t *answers[PHASES];  /* kept for repeated commands */
	json_t *prepare;          /* the coordinator's */
	struct job *check;        /* of the store and the node, part of `prepare` */
	json_t *checked;
	int64_t gpu_first_ns, gpu_last_ns; /* CLOCK_REALTIME: the first GPU told to stop, the
					    * last back; 0: none */
	bool failed, aborted, over;
	uint32_t failed_rank;
	bool rank_to_blame;
	struct gck_error why;
	ev_tstamp write_began;
	uint64_t staged;          /* bytes that went through the stage */
	char unstaged[480];       /* why not all bytes did; "": all did, or there is no stage */
	uint64_t told_progress;
	ev_tstamp told_at;        /* of that report */
	ev_timer limit;           /* of the current phase, or of a write without progress */
	ev_timer hold;            /* for how long ranks are held, or the coordinator is silent
				   * meanwhile */
	ev_timer status_wait, dismissal, tick;
	ev_timer look;            /* for shims and MPI threads that are about to connect again */
	ev_tstamp look_began;
	bool started;             /* the workers were started ... */
	const struct rank_checkpoint *in_init; /* ... after a wait for this rank to leave MPI_Init,
					        * or NULL */
	struct gck_error refusal; /* of the first rank that is refused for now, ... */
	const struct rank_checkpoint *refused; /* ... this one, or NULL */
	json_t *next;             /* a `prepare` that waits for the workers of this one to leave */
};

/* Ranks and workers that hear nothing let go by themselves, this much later than held_ms: the
 * agent's own timers come first. */
#define TRANSACTION_WATCHDOG_MORE_MS 3000
#define TRANSACTION_BACKSTOP_MORE_MS 2000

/* Start the limit of the current phase; start the bound on how long ranks are held. */
void transaction_limit(struct transaction *t, double seconds);
void transaction_bound_hold(struct transaction *t, double seconds);

/* The first failure ends the checkpoint on this node: ranks resume, and the failure is the
 * answer to this and all later commands. m: the rank that it is about, or NULL. at_once: kill
 * the workers. */
void transaction_fail(struct transaction *t, const struct rank_checkpoint *m,
		      const struct gck_error *err,
		      bool at_once);

/* Sends the failure as the answer to phase p. */
void transaction_answer_failure(const struct transaction *t, enum phase p);

/* The coordinator has given it up: tells all workers to leave. It is freed when they have. */
void transaction_abort(struct transaction *t);

/* Frees an aborted transaction whose workers have left, and starts the next. */
void transaction_leave_if_empty(struct transaction *t);
void transaction_on_dismissal(struct ev_loop *loop, ev_timer *w, int events);

/* A rank's part in the current checkpoint; NULL: none. */
struct rank_checkpoint *transaction_rank(struct agent *a, const struct task *task);

/* Workers that have not ended. */
unsigned transaction_workers(const struct transaction *t);

/* The coordinator is connected and knows what is held: ranks that are held for long wait on. */
void transaction_heard(struct transaction *t);

/* For `register`: the sequence number of a checkpoint whose end is not known, or whose ranks are
 * still held (0: none); and whether they are held. */
uint32_t transaction_seq(const struct transaction *t);
bool transaction_held(const struct transaction *t);
bool transaction_leaves(const struct transaction *t); /* held, and the job perhaps requeued */

/* End all ranks that are held, and their processes, none of which goes on before. False: none is
 * held. */
bool transaction_end_held(struct agent *a);

/* Is a rank held for a checkpoint, being stopped or being let go? */
bool transaction_has_rank(struct agent *a, const struct task *task);

#endif
