/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on this node: one worker per rank, told together and answered for together. Whatever fails
 * lets all ranks go, and is the answer to every later command of the checkpoint. */
#ifndef AGENT_TRANSACTION_H
#define AGENT_TRANSACTION_H

#include "coordinator/agent/checkpoint/rank_checkpoint.h"

/* Words of ranks, as they are exchanged in a round. */
struct words {
	unsigned char *v;
	size_t n;
};

struct quiesce {
	uint32_t via;             /* enum gck_link_mpi_via */
	uint32_t limit_ms;
	ev_tstamp began;          /* 0: it has not */
	uint32_t round, sent;     /* that this node's ranks are at; that was told upstream */
	struct words ours, all;
};

/* What the files below report of a checkpoint to those above. */
struct transaction_ops {
	/* A rank has done something: the phase that is asked may be complete. */
	void (*settle)(struct transaction *t);
	/* The GPUs of all ranks are drained: they can be stopped. */
	void (*drained)(struct transaction *t);
	/* A worker answered phase p; its write got on; its image is staged (why: if not all of it; "": it is); it ended. */
	void (*answered)(struct member *m, enum phase p, const json_t *body);
	void (*progressed)(struct member *m);
	void (*staged)(struct member *m, const char *why);
	void (*worker_ended)(struct member *m, int status);
	/* The rank is gone: carried as soon as its status is known. */
	void (*await_status)(struct member *m);
	/* The transaction is gone, and this `prepare` (borrowed) waited for that. */
	void (*next)(struct agent *a, const json_t *prepare);
};

struct transaction {
	struct agent *agent;
	const struct transaction_ops *ops;
	uint32_t seq;
	char nonce[64];
	bool keep_held;
	bool held_write;          /* ranks are held until their images are written: known from freeze on */
	struct quiesce quiesce;
	double timeout_s, hold_s;
	uint32_t held_ms;         /* the longest time for which ranks are held */
	struct member *members;
	size_t n;
	enum phase asked;         /* the phase that the coordinator waits for; PHASES: none */
	json_t *answers[PHASES];  /* what was answered, for repetitions */
	json_t *prepare;          /* the coordinator's */
	struct job *check;        /* of the store and the node, part of `prepare` */
	json_t *checked;
	int64_t gpu_first_ns, gpu_last_ns; /* CLOCK_REALTIME: the first GPU told to stop, the last back; 0: none */
	bool failed, aborted, over;
	uint32_t failed_rank;
	bool rank_to_blame;
	struct gck_error why;
	ev_tstamp write_began;
	uint64_t staged;          /* bytes that went through the stage */
	char unstaged[480];       /* why not all did; "": all did, or there is none */
	uint64_t told_progress;
	ev_tstamp told_at;        /* that */
	ev_timer limit;           /* of the phase that is asked, or of a write's standstill */
	ev_timer hold;            /* ranks are held, or the coordinator is away while they are */
	ev_timer status_wait, dismissal, tick;
	ev_timer look;            /* for shims and MPI threads that are about to connect again */
	ev_tstamp look_began;
	bool started;             /* workers were */
	json_t *next;             /* a `prepare` that waits for this one's workers to leave */
};

/* Ranks and workers that hear nothing let go by themselves, so much later than held_ms: the agent's own timers come
 * first. */
#define TRANSACTION_LEASE_MORE_MS 3000
#define TRANSACTION_BACKSTOP_MORE_MS 2000

/* Start the limit of the phase that is asked, and the bound on how long ranks are held. */
void transaction_limit(struct transaction *t, double seconds);
void transaction_bound_hold(struct transaction *t, double seconds);

/* The first failure ends the checkpoint on this node: ranks go on, and that is the answer to what is asked now or
 * later. m: the rank that it is about, or NULL. at_once: kill the workers. */
void transaction_fail(struct transaction *t, const struct member *m, const struct gck_error *err,
		      bool at_once);

/* The failure, as the answer to phase p. */
void transaction_answer_failure(const struct transaction *t, enum phase p);

/* The coordinator has given it up: all workers are to leave. It is freed when they have. */
void transaction_abort(struct transaction *t);

/* Free an aborted transaction whose workers have left, and make room for the next. */
void transaction_leave_if_empty(struct transaction *t);
void transaction_on_dismissal(struct ev_loop *loop, ev_timer *w, int events);

/* A rank's part in the checkpoint that is under way, NULL: it has none. */
struct member *transaction_member(struct agent *a, const struct task *task);

/* Workers that have not ended. */
unsigned transaction_workers(const struct transaction *t);

/* The coordinator lives, and knows what is held: ranks are not held for long without its word. */
void transaction_heard(struct transaction *t);

/* For `register`: the sequence number whose end was not heard, or whose ranks are still held (0:
 * none), and whether they are. */
uint32_t transaction_seq(const struct transaction *t);
bool transaction_held(const struct transaction *t);

/* Is a rank held for a checkpoint, or on its way there or back? */
bool transaction_has_rank(struct agent *a, const struct task *task);

#endif
