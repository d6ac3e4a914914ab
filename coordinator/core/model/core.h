/* SPDX-License-Identifier: Apache-2.0
 * The coordinator without its surroundings: the state, and what it asks of the world (connections,
 * journal, clock, Slurm). The daemon brings the real world, the tests bring a fake one. */
#ifndef GCK_CORE_H
#define GCK_CORE_H

#include "common/base/conf.h"
#include "coordinator/core/model/state.h"
#include "storage/crypto/keyring.h"

struct gck_core;
struct gck_operation;
struct gck_agent; /* a connection of an agent: the world's */

enum gck_timer {
	GCK_TIMER_PHASE,    /* how long the phase may last */
	GCK_TIMER_INTERVAL, /* the next checkpoint by interval=, or the next try */
	GCK_TIMER_HOLD,     /* the next sign of life to agents whose ranks are held */
	GCK_TIMERS
};

/* What Slurm answered: ok with data, or not with a text. code is an errno value; ENOENT is "no such
 * job". */
struct gck_slurm_answer {
	bool ok;
	int code;
	const char *error;
	const json_t *data;
};

typedef void gck_slurm_fn(void *arg, const struct gck_slurm_answer *answer);

struct gck_world {
	/* Queue a message to an agent; a failure shows as a lost connection later. */
	void (*send)(struct gck_agent *agent, const json_t *body);
	/* The agent of a node was replaced by a new connection, or refused; it is there until the core
	 * has returned. */
	void (*drop)(struct gck_agent *agent);
	int (*journal)(struct gck_core *core, const json_t *record, bool sync,
		       struct gck_error *err);
	/* Put the whole state in place of the journal. */
	int (*rewrite)(struct gck_core *core, struct gck_error *err);
	/* (Re)start a timer of a step; 0 ms stops it. */
	void (*timer)(struct gck_core *core, struct gck_step *step, enum gck_timer which,
		      unsigned ms);
	/* Ask Slurm without waiting (request is stolen); done comes later, exactly once. */
	void (*slurm)(struct gck_core *core, json_t *request, gck_slurm_fn *done, void *arg);
	int64_t (*now_ms)(void); /* CLOCK_REALTIME */
	void (*nonce)(char out[GCK_NONCE_TEXT]);
	/* The job's data key, wrapped: job->key, or that anew if another key wraps by now, or a new
	 * one. ENOKEY: this site has no key to wrap with. */
	int (*wrap)(struct gck_core *core, const struct gck_job *job, char out[GCK_WRAPPED_MAX],
		    struct gck_error *err);
	/* Could it? Nothing is made, read anew or logged. */
	int (*can_wrap)(struct gck_core *core, struct gck_error *err);
};

#define GCK_EVENT_QUEUE 4096

struct gck_core {
	const struct gck_conf *conf;
	const struct gck_world *world;
	struct gck_state state;
	struct gck_operation *operations;
	bool behind;                /* the journal lacks what the state has */
	int64_t since;              /* seconds since the epoch */
	json_int_t slurmd_timeout_s; /* SlurmdTimeout; -1: Slurm has not told yet */
	struct {
		struct gck_step *step;
		int event;
	} queue[GCK_EVENT_QUEUE];   /* of the machine */
	unsigned head, count;
	unsigned impossible;        /* events that no phase expected: bugs, for tests to see */
	bool draining;
};

/* Journal a record (stolen), then change the state by it. With sync it is on the disk on return. */
int gck_core_record(struct gck_core *core, json_t *record, bool sync, struct gck_error *err);

/* The same for what goes on even if it cannot be journaled: a failure is logged. */
void gck_core_note(struct gck_core *core, json_t *record, bool sync);

/* {"t": type, "job":, "step":} and {..., "seq":}, to be filled up. */
json_t *gck_record(const struct gck_step *step, const char *type);
json_t *gck_record_seq(const struct gck_step *step, const char *type, uint32_t seq);

#endif
