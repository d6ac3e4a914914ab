/* SPDX-License-Identifier: Apache-2.0
 * A world for the core without connections, clock or Slurm: agents that are a few flags each and
 * behave as doc/protocol.md wants, the journal's real bytes (fake_journal.h), a store
 * of commits that outlives all, a Slurm that answers when it is told to.
 * What the agents and the core say to each other waits in queues until the test delivers it. */
#ifndef GCK_TEST_FAKE_WORLD_H
#define GCK_TEST_FAKE_WORLD_H

#include "coordinator/core/model/live.h"

#define STEPS 3
#define NODES 3
#define TASKS 4 /* node 0 has two */
#define SCRIPT_NODE 1 /* the job's script runs there */
#define OWNER 1000
#define JOB 7
#define SLURMD_TIMEOUT_S 30
#define ISOLATED_MS (SLURMD_TIMEOUT_S * 2000 / 3) /* without a word, a node's ranks run as long */
#define QUEUE 256

enum fake_state { F_NEW, F_RUNNING, F_RESTORING, F_OVER };

struct fake_queue {
	json_t *messages[QUEUE];
	unsigned n;
};

struct gck_agent {
	struct fake *world;
	unsigned step, node;
	bool connected, joined, refused;
	bool welcomed;       /* on this connection: no other word is taken before */
	bool anew;           /* it died while its ranks were restored: it knows of no restart */
	uint32_t epoch;      /* the highest of a coordinator that it obeyed, and when */
	int64_t obeyed_ms;
	enum fake_state state;
	uint32_t restarts;
	uint32_t seq;        /* of the checkpoint it works on, 0: none */
	bool keep_held, frozen, held, written;
	bool leaves;         /* it knows that Slurm may be asked to requeue the job */
	bool held_write;     /* the freeze said that the write comes while they are held */
	bool needs_hold;     /* it has no memory for clones */
	int hold_ms;         /* its ranks must be held as long as that; as long as they may be */
	int may_hold_ms;
	bool mpi;            /* its ranks use MPI */
	uint32_t round;      /* of the quiesce, that they wait for; 0: none */
	bool quiesced;
	unsigned rounds;     /* that it has been through, in all its life */
	uint32_t built;      /* the commit that its ranks are built from */
	uint32_t filed;      /* the commit that its files are cut back to */
	unsigned passing;    /* it refuses so many times to prepare, for a reason that passes */
	unsigned pmix_fails; /* a quiesce of its ranks fails so many times, as when PMIx fails */
	int no_prepare, no_build, no_run; /* what it answers to these; 0: that it did it */
	uint32_t offered;
	uint32_t from;       /* the commit that its ranks run from, 0: a cold start */
	uint32_t prepared;   /* the last number that it was asked for */
	uint32_t asks_all;   /* the gck_checkpoint_all() that its ranks are in */
	uint32_t committed_all; /* the last that it heard to be committed */
	json_t *asked;       /* the last `asked` */
	char nonce[GCK_NONCE_TEXT];
	int32_t exits[TASKS];
	bool cut_off;        /* it cannot connect */
	int64_t until_ms;    /* without a connection, by the boot clock: its node is isolated */
	bool isolated;
	struct fake_queue in, out; /* from and to the core */
};

struct fake_slurm {
	json_t *request;
	gck_slurm_fn *done;
	void *arg;
};

/* The bytes of a journal; no crash loses those on the disk. */
struct fake_journal {
	char *text;
	size_t size, capacity, on_disk;
};

struct fake {
	struct gck_core core;       /* first */
	struct gck_conf conf;
	struct fake_journal journal, copy; /* copy: the journal as it once was */
	json_t *records;            /* all that are in it */
	bool journal_fails, journal_broken; /* broken: until it is written anew */
	unsigned dies;              /* the coordinator is killed in so many records; 0: it is not */
	unsigned wrapping;                  /* what wraps keys; 0: nothing */
	bool dead;                  /* the coordinator was killed: what it still does is lost */
	int64_t began_ms;           /* its start, by the boot clock */
	unsigned timers[STEPS][GCK_TIMERS];
	struct fake_slurm slurm[QUEUE];
	unsigned nslurm;
	struct gck_agent agents[STEPS][NODES];
	struct gck_agent remnants[STEPS][NODES]; /* of former starts: Slurm did not end them */
	int leaves;                 /* in a hundred: how many does a requeue leave behind */
	const char *options, *program; /* of every step; the store's commits are those of "p" */
	uint32_t restarts;          /* Slurm's, and when the job was submitted for that start */
	int64_t submit;
	bool no_requeue;
	bool slurm_away;
	bool taken, held;           /* Slurm takes the job back; it is held then */
	bool told;                  /* the core knows that */
	bool unreadable;            /* the store, for those that register */
	json_t *store[STEPS];       /* {"seq": hash}: commit objects */
	uint32_t promised[STEPS];   /* the commit that a restart has to go back to, or a newer one;
				     * 0: there is none */
	uint32_t refused[STEPS];    /* the newest commit that an agent could not start from */
	bool forgot;                /* an older journal: which commits restarts went back behind */
	uint32_t damaged[STEPS];    /* the commit that cannot be built */
	bool committed[STEPS];      /* "committed" was said */
	unsigned commits, aborts, requeues, restores, fallbacks; /* how many there were */
	json_int_t tried[STEPS];    /* the commit of the last restart that did not run; 0: none */
	json_t *common;             /* what each node's images have in common with the others' */
	int faults;                 /* in a hundred: what fails, or is not answered */
	unsigned syncs;             /* of the journal */
	char said[960];             /* the last line for the user, and how many there were */
	unsigned lines;
	unsigned sweeps;            /* that agents were told to make; the orders of the last */
	unsigned orders;
	unsigned violations;
	char violation[300];
	unsigned (*random)(struct fake *f, unsigned below);
	uint64_t seed;
};

void fake_begin(struct fake *f, uint64_t seed);
void fake_end(struct fake *f);

/* What is lost with a coordinator: nothing of its journal, what was not on the disk, all since the
 * journal was copied, or all of it; then the clock is a day behind. */
enum fake_loss { FAKE_NOTHING, FAKE_TAIL, FAKE_SINCE_COPY, FAKE_JOURNAL };

/* The coordinator is killed and started again: its state comes out of the journal. */
void fake_crash(struct fake *f);
void fake_crash_losing(struct fake *f, enum fake_loss loss);

/* A record was written. */
void fake_noted(struct fake *f, const json_t *record, bool sync);

/* Connections. */
void fake_connect(struct fake *f, struct gck_agent *a);
void fake_disconnect(struct fake *f, struct gck_agent *a);

/* The agent is killed, and started again. */
void fake_agent_dies(struct fake *f, struct gck_agent *a);

/* Let an agent act on the next message that it was sent; bring the core the next of an agent. */
bool fake_agent_takes(struct fake *f, struct gck_agent *a);
bool fake_core_takes(struct fake *f, struct gck_agent *a);

/* A rank ends; agents let go by themselves; Slurm answers the next question. */
void fake_rank_ends(struct fake *f, struct gck_agent *a, int32_t status);
void fake_lets_go(struct gck_agent *a);
bool fake_slurm_answers(struct fake *f, bool well);
bool fake_timer_fires(struct fake *f, unsigned step, enum gck_timer which);

/* Connect whoever is not, let everybody take one message and Slurm answer one question. True if
 * there was anything. */
bool fake_deliver(struct fake *f);

/* Time passes. fake_boot_ms(): by the clock of all machines that nobody sets. */
void fake_pass(int64_t ms);
int64_t fake_boot_ms(void);

/* All that is under way comes to its end; no timer goes off. */
void fake_settle(struct fake *f);

/* The job starts again: Slurm ends the agents of the old incarnation, except those that it leaves
 * behind; new ones have not connected. */
void fake_requeued(struct fake *f);

/* May the agent's ranks run? */
bool fake_still_runs(struct gck_agent *a);

void fake_wrong(struct fake *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
