/* SPDX-License-Identifier: Apache-2.0
 * The state that the coordinator must not forget: jobs, their steps, and the steps' commits. It is
 * changed by records alone (record.h), whether they were just journaled or are replayed after a
 * crash. What lives only as long as its agents do is in live.h.
 *
 * A job is known by its id and owner. Slurm may use an id again, after a wrap or if slurmctld lost
 * its state. It is then another job, recognised by a lower restart count, another owner, another
 * submit time at the same restart count, or because Slurm had forgotten the id. (A requeue raises
 * the restart count and changes the submit time.) */
#ifndef GCK_STATE_H
#define GCK_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "storage/base/hash.h"

#define GCK_NONCE_TEXT 33
#define GCK_MAX_NODES 65536u
#define GCK_MAX_TASKS (1u << 20)
#define GCK_MAX_NODE_TASKS 4096 /* Slurm's own limit is 512 unless a site raises it */
#define GCK_FINGERPRINT_MAX (64u << 10) /* bytes of JSON */
#define GCK_NO_EXIT INT32_MIN /* a rank that has not ended */

/* The live part of a step; live.h. */
struct gck_live;

struct gck_commit {
	struct gck_commit *older;
	uint32_t seq;
	uint32_t restarts;        /* the incarnation that it was taken in */
	bool abandoned;           /* a restart went back behind it, or it is damaged: no longer a
				   * candidate */
	char hash[GCK_HASH_TEXT]; /* of the commit object */
	int64_t time;             /* seconds since the epoch */
	json_t *info;             /* for list and show: sizes, times, nodes */
	uint64_t stored;          /* of info: bytes that this commit added to the store */
	bool aside;               /* too many restarts from it failed: not a candidate until the
				   * step has a new commit, or its job was held */
	bool imported;            /* by its user: a restart uses it only if restart= names it, and
				   * keep= does not count it */
};

/* A checkpoint or an import that has begun; seq 0: none. */
struct gck_intent {
	uint32_t seq;
	char nonce[GCK_NONCE_TEXT];
	bool held;       /* its ranks stay held until it is decided */
	bool committing; /* the commit object may lie in the store */
	json_t *info;    /* of the future commit */
	json_t *import;  /* directories into which an import puts objects; NULL: a checkpoint */
};

/* Restarts that failed since the last commit; actions/failures.h. */
struct gck_failures {
	uint32_t all;             /* for whatever reason */
	uint32_t same;            /* in a row from commit seq, for reasons of its own */
	uint32_t seq;
	bool spent;               /* no further start is tried: the job is to be held */
	bool held;                /* the job was requeued and held; the counts began again */
	int64_t time;             /* of the last failure, or of the hold */
	char *why;                /* NULL: none */
};

enum gck_timer {
	GCK_TIMER_PHASE,    /* the time limit of the phase */
	GCK_TIMER_INTERVAL, /* the next checkpoint by interval=, or the next try */
	GCK_TIMER_HOLD,     /* the next keepalive to agents whose ranks are held */
	GCK_TIMER_AGAIN,    /* the next try of a checkpoint that failed for a passing reason */
	GCK_TIMER_SLOW,     /* the user is told of a restart that takes long */
	GCK_TIMERS
};

struct gck_step {
	struct gck_step *next;
	struct gck_job *job;
	uint32_t id;
	uid_t uid;                /* the job's owner, or the owner of a former job with its id */
	uint32_t last_seq;        /* sequence numbers go on across restarts */
	bool listed;              /* the journal has all commits and numbers that the store has:
				   * they were told since it was in doubt */
	uint32_t unheard;         /* nobody could tell whether this aborted checkpoint's commit
				   * object was written; 0: none */
	uint32_t restarts;        /* the incarnation that the following members describe */
	uint32_t nodes, ntasks;
	char *store, *options;
	json_t *fingerprint;
	bool disabled;
	bool decided;             /* the start is decided: from run_seq, or cold if that is 0 */
	bool finished;            /* every rank ended with status 0 */
	uint32_t run_seq;
	int64_t run_ms;           /* when its ranks were let go; 0: unknown, or a cold start */
	uint32_t restore_seq;     /* the commit that a restart is trying; 0 is the newest */
	int32_t *exits;           /* by rank: wait status or GCK_NO_EXIT */
	bool *over;               /* by node: its agent said bye; NULL: none did */
	struct gck_failures failures;
	struct gck_intent intent;
	struct gck_commit *commits; /* newest first */
	uint32_t from_job, from_seq; /* restart= of its options; seq 0: none, job 0: its own */
	uint32_t removals;        /* counts the times that commits were forgotten (removal.h) */
	uint32_t swept;           /* the removals up to which the store was swept */
	int64_t ordered_ms;       /* when an agent was ordered to sweep; 0: never */
	int64_t landing_ms;       /* until then objects of a lost import may arrive in the store */
	struct gck_live *live;    /* NULL while no agent is known */
	void *timers[GCK_TIMERS]; /* the world's */
	size_t bytes;             /* an estimate of the memory that its agents' messages use */
	bool asking, asked;       /* ending.c: Slurm is asked how the job ended; has answered */
};

/* What became of the wish that Slurm requeue a job whose start may not run. */
enum gck_refusal { GCK_REFUSAL_NEW, GCK_REFUSAL_ASKED, GCK_REFUSAL_OVER };

struct gck_job {
	struct gck_job *next;
	uint32_t id;
	uid_t uid;
	char *user;
	uint32_t restarts;
	int64_t submit;           /* at that restart count */
	uint32_t array, task;     /* the job array that it is a task of; array 0: of none */
	bool batch;               /* only batch jobs can be requeued */
	bool no_requeue;          /* a batch job that Slurm does not requeue by itself; */
	bool said_so;             /* its user was told */
	enum gck_refusal refusal; /* actions/failures.h: of its start after refused_start */
	uint32_t refused_start;   /* requeues, by Slurm's count */
	bool gone;                /* Slurm no longer knows it */
	bool requeued;            /* slurm_requeue was about to be called for this incarnation */
	char *key;                /* data key of its images, wrapped; NULL: none yet */
	json_t *remnants;         /* [{step, node, name}] of former starts (remnant.h) */
	int64_t remnants_until_ms; /* then they are isolated at the latest */
	struct gck_step *steps;
	/* slurm_watch.c: attempts to move the job off a draining node, the time of the next, and
	 * why the job is still there. */
	unsigned drain_tries;
	int64_t drain_next_ms;
	char *stays;
	bool stays_told;
};

struct gck_state {
	uint32_t epoch;
	int64_t doubt; /* when a coordinator last started with a journal that may lack records,
			* seconds since the epoch; 0: never */
	struct gck_job *jobs;     /* ordered by id */
	struct gck_job **index;   /* the same, in the same order */
	size_t count, capacity;
};

/* Free what a state holds (not the struct, not live parts). */
void gck_state_clear(struct gck_state *s);

struct gck_job *gck_state_job(const struct gck_state *s, uint32_t job);
struct gck_step *gck_state_step(const struct gck_state *s, uint32_t job, uint32_t step);
struct gck_commit *gck_step_commit(const struct gck_step *step, uint32_t seq);

/* The newest commit that a restart may go back to, of those up to below if that is not 0; or
 * NULL. */
const struct gck_commit *gck_step_newest(const struct gck_step *step, uint32_t below);

/* Are there forgotten commits that must still be swept? */
bool gck_step_unswept(const struct gck_step *step);

/* The number of ranks that have ended. */
uint32_t gck_step_ended(const struct gck_step *step);

/* Find or create; NULL without memory. */
struct gck_job *gck_state_add_job(struct gck_state *s, uint32_t job);
struct gck_step *gck_job_add_step(struct gck_job *job, uint32_t step);
struct gck_commit *gck_step_add_commit(struct gck_step *step, uint32_t seq);

/* Forget commits: one, all of them, or all that are not among the keep best (those that were not
 * abandoned first, then by age). */
void gck_step_drop_commit(struct gck_step *step, uint32_t seq);
void gck_step_prune(struct gck_step *step, unsigned keep);

/* Forget a job and its steps. */
void gck_state_drop_job(struct gck_state *s, struct gck_job *job);

/* Close the intent. Giving it up also marks an import's step to be swept; of a checkpoint, the
 * agents remove the objects, and its number is used, unless the journal is in doubt. */
void gck_step_clear_intent(struct gck_step *step);
void gck_step_give_up_intent(struct gck_step *step);

/* Failed restarts count from 0 again, and no commit is set aside. */
void gck_step_clear_failures(struct gck_step *step);

/* Begin an incarnation: no rank has ended, nothing is decided. -1 without memory. */
int gck_step_begin(struct gck_step *step, uint32_t restarts, uint32_t ntasks) GCK_MUST_CHECK;

/* -1, E2BIG, if the state keeps as much about this user's steps as it may. */
int gck_state_check_user(const struct gck_state *s, uid_t uid, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
