/* SPDX-License-Identifier: Apache-2.0
 * What the parts of a checkpoint on this node share: the transaction (transaction.c) and its phases
 * (phases.c). */
#ifndef AGENT_PHASES_H
#define AGENT_PHASES_H

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

struct transaction {
	struct agent *agent;
	uint32_t seq;
	char nonce[64];
	bool keep_held;
	bool held_write;          /* ranks are held until their images are written: known from freeze on */
	struct quiesce quiesce;
	double timeout_s, hold_s;
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

/* Phases: do what is asked (its limit and its commands to the workers), and answer it as soon as
 * every rank of the node has. */
void phase_start(struct transaction *t, enum phase p);
void phase_settle(struct transaction *t);

/* Stop the ranks, once the GPUs of all of them are drained. */
void phase_freeze(struct transaction *t);

/* Tell workers to write, as many at a time as the node's share allows (share.h). */
void phase_write_more(struct transaction *t);

/* prepare.c: the first phase. */
void phase_prepare(struct transaction *t);
/* All have answered: is the link of an MPI or CUDA thread missing? Then the phase is settled when it comes, or
 * fails. */
bool prepare_waits(struct transaction *t);
void prepare_on_look(struct ev_loop *loop, ev_timer *w, int events);

/* The phase that must have been answered before p can be asked. */
enum phase phase_before(enum phase p);

/* The longest time for which ranks are held. Ranks and workers that hear nothing let go by themselves, a
 * little later: the agent's own timers come first. */
uint32_t phase_held_ms(const struct transaction *t);
#define PHASE_LEASE_MORE_MS 3000
#define PHASE_BACKSTOP_MORE_MS 2000

/* Start the limit of the phase that is asked, and the bound on how long ranks are held. */
void phase_limit(struct transaction *t, double seconds);
void phase_hold(struct transaction *t, double seconds);

/* events.c */
void transaction_init_timers(struct transaction *t);

/* An aborted transaction whose workers have left is gone, and makes room for the next. */
void transaction_leave_if_empty(struct transaction *t);
/* The rank is gone: carried as soon as its status is known. */
void transaction_await_status(struct member *m);

/* A rank's part in the checkpoint that is under way, NULL: it has none. */
struct member *transaction_member(struct agent *a, const struct task *task);

/* Workers that have not ended. */
unsigned transaction_workers(const struct transaction *t);
void transaction_on_dismissal(struct ev_loop *loop, ev_timer *w, int events);

/* The first failure ends the checkpoint on this node: ranks go on, and that is the answer to what
 * is asked now or later. m: the rank that it is about, or NULL. at_once: kill the workers. */
void transaction_fail(struct transaction *t, const struct member *m, const struct gck_error *err,
		      bool at_once);

#endif
