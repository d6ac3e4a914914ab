/* SPDX-License-Identifier: Apache-2.0
 * The part of a step that lives as long as its agents: its nodes, the phase it is in, the
 * checkpoint or restart under way. */
#ifndef GCK_LIVE_H
#define GCK_LIVE_H

#include "common/base/options.h"
#include "coordinator/core/model/core.h"

enum gck_agent_state { GCK_AGENT_NEW, GCK_AGENT_RUNNING, GCK_AGENT_HELD, GCK_AGENT_RESTORING };

/* A node whose ranks ask for a checkpoint themselves (rank_request.h). */
struct gck_rank_request {
	struct gck_core *core;
	struct gck_step *step;
	uint64_t id, failed;     /* ids of the last request and of the last that failed */
	uint32_t all;            /* number of the last gck_checkpoint_all() */
};

struct gck_node {
	char name[64];
	struct gck_agent *agent; /* NULL while there is none */
	bool known;              /* registered in this incarnation */
	bool over;               /* said that the step ends there */
	bool answered;           /* the order of this phase */
	bool welcomed;           /* was told how to start */
	bool back;               /* is registering now */
	bool script;             /* the job's script runs there */
	int64_t left_ms;         /* when its connection ended; 0: never */
	enum gck_agent_state state;
	uint32_t seq;            /* as registered */
	json_t *commits;         /* as registered by node 0; NULL: the store could not be read */
	char *store_error;
	json_t *ranks;           /* [{rank, pid}] */
	json_t *items;           /* obstacles, as last answered; NULL: no answer yet */
	uint64_t done, all;      /* bytes of this phase */
	uint64_t sent, staged;   /* those of them that a write sent through the stage */
	uint32_t mpi;            /* ranks with MPI, as answered to `prepare` */
	bool pmix;               /* all of them can use PMIx */
	struct gck_rank_request request;
	uint32_t round;          /* the round of the quiesce that its ranks wait for */
	unsigned char *words;    /* what its ranks say in the round */
	size_t nwords;           /* bytes */
};

struct gck_checkpoint {
	uint32_t seq;            /* 0: none */
	bool keep_held;          /* ranks stay held until the operation decides */
	unsigned hold_ms;        /* how long ranks may be held, if that is more than hold= */
	bool held;               /* ranks are held until the commit: keep_held, or little memory */
	uint32_t round;          /* the current round of the quiesce */
	bool waits;              /* its abort waits for Slurm's word (requeue.h) */
	bool terminating;        /* its agents were told to end the ranks */
	struct gck_error refusal; /* of the first node that refused it for now; code 0: none */
	char reason[200];
	struct gck_operation *operation;
	int64_t began_ms, written_ms;
	int64_t quiescing_ms, quiesced_ms; /* rounds began, ended; 0: no rank has MPI */
	const char *via;         /* what carries the ranks' words: "pmix" or "coordinator" */
	int64_t first_ns, last_ns; /* the first rank held, the last running again */
	int64_t gpu_first_ns, gpu_last_ns; /* the first GPU told to stop, the last back; 0: none */
	uint32_t asked;          /* the last gck_checkpoint_all() in which a rank was frozen */
	uint64_t put, stored;
	json_t *common;          /* of these: objects that ranks of other nodes may have stored */
	size_t common_most;      /* the capacity of common */
	uint64_t staged;         /* of stored: bytes that went through nodes' stages */
	char unstaged[480];      /* why a node wrote without its stage; the first such node */
	int64_t free_ns;         /* when the last copy of a rank's memory was freed */
	double write_s;
	json_t *manifests;       /* by rank: hash, exit status, or null */
	char hash[GCK_HASH_TEXT]; /* of the commit object */
};

struct gck_restart_plan {
	uint32_t job, step, seq; /* of the commit; the job may be another one */
	char hash[GCK_HASH_TEXT]; /* "" if only the store knows */
};

struct gck_live {
	enum gck_phase phase;
	struct gck_node *nodes;
	uint32_t nnodes;
	struct gck_options options;
	struct gck_checkpoint checkpoint;
	struct gck_restart_plan plan;
	bool holding;            /* GCK_TIMER_HOLD runs */
	bool foreign;            /* its store has commits of another program */
	bool fenced;             /* it waits for remnants of a former start (remnant.h) */
	bool refused;            /* the step must not start, because of last_error */
	bool try_again;          /* the commit is not at fault: the job is not held */
	bool failed;             /* this restart failed, which is journaled */
	bool bad_end;            /* a rank ended with a status other than 0; if that was soon after
				  * it was restored: */
	int64_t crash_ms;        /* when; 0: it was not */
	char crash[160];         /* how */
	bool doom_told;          /* the agents know that nothing can be restored */
	uint32_t able_id;        /* id of the last `able` */
	uint32_t all_done;       /* the last gck_checkpoint_all() committed in this incarnation */
	uint32_t all_failed;     /* ... and of the last that failed; every rank gets this reason: */
	char all_why[480];
	unsigned failures;       /* in a row; the interval backs off */
	int64_t next_ms;         /* when the interval ends; 0: interval=off */
	int64_t phase_since_ms;
	struct gck_error error;  /* why the phase is being left */
	char last_error[480];    /* for status */
	char said_error[480];    /* the last that the user was told, "" after a commit */
	int64_t last_error_time;
};

/* -1 if there is no memory or the options are bad. */
int gck_live_begin(struct gck_step *step, struct gck_error *err) GCK_MUST_CHECK;
void gck_live_free(struct gck_step *step);

/* Clear the data of a checkpoint: none is under way. */
void gck_checkpoint_clear(struct gck_checkpoint *c);

/* The agent's node in its step, or NULL. */
struct gck_node *gck_live_node(struct gck_step *step, const struct gck_agent *agent);

/* The node has no agent any more, from now on. */
void gck_node_left(struct gck_node *node, int64_t now_ms);

/* Seconds as milliseconds, UINT32_MAX at most. */
unsigned gck_ms(unsigned seconds);

/* Keep the members that are used of an agent's ranks and obstacles, at most as many as the step has
 * tasks. ranks that are no list are kept as NULL. */
void gck_node_set_ranks(struct gck_node *node, const json_t *ranks, uint32_t ntasks);
void gck_node_set_items(struct gck_node *node, const json_t *items);

/* Forget what its ranks said in a round of a quiesce. */
void gck_node_clear_words(struct gck_node *node);

/* Were its ranks released, at least once? */
bool gck_node_runs(const struct gck_node *node);

/* Counts that decisions rest on. */
bool gck_live_all_known(const struct gck_live *live); /* every node is here or over */
bool gck_live_all_over(const struct gck_live *live);
bool gck_live_any_here(const struct gck_live *live);
bool gck_live_all_answered(const struct gck_live *live, bool lost_counts);
const struct gck_node *gck_live_missing(const struct gck_live *live); /* first that is not here */
const struct gck_node *gck_live_silent(const struct gck_live *live);  /* first without an answer */

/* Bytes done, and the name of what is done: the phase, or the part of a write through stages. all
 * is 0 until every node that restores has told the size of its images. */
const char *gck_live_progress(const struct gck_live *live, uint64_t *done, uint64_t *all);

/* A new order {"op": op, "seq"} of the checkpoint under way; the caller adds members. */
json_t *gck_live_order(const char *op, const struct gck_step *step);

/* Send to one node, or to all that are here. body is stolen. */
void gck_live_send(struct gck_core *core, struct gck_node *node, json_t *body);
void gck_live_send_all(struct gck_core *core, struct gck_step *step, json_t *body);

/* The same for an order: the nodes count as not having answered. */
void gck_live_ask_all(struct gck_core *core, struct gck_step *step, json_t *body);

/* Print a line in the step's output, unless its option is quiet=yes. */
void gck_live_say(struct gck_core *core, const struct gck_step *step, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Set the time limit of the phase or of its next part; 0: none. */
void gck_live_phase_timer(struct gck_core *core, struct gck_step *step, unsigned ms);

/* Leave an error in the step, for the action that handles the failure. */
void gck_live_fail(struct gck_step *step, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
