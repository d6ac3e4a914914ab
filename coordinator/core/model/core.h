/* SPDX-License-Identifier: Apache-2.0
 * The coordinator without its surroundings: the state, the queue of events, and the functions that
 * it needs of the world (connections, journal, clock, Slurm). The daemon gives it the real world,
 * the tests a fake one. */
#ifndef GCK_CORE_H
#define GCK_CORE_H

#include "common/base/conf.h"
#include "common/base/error.h"
#include "coordinator/core/model/phase.h"
#include "coordinator/core/model/state.h"
#include "storage/base/open_store.h"

struct gck_core;
struct gck_operation;
struct gck_agent; /* a connection of an agent; the world defines it */

/* Slurm's answer: data if ok, else an errno value and a text. ENOENT means "no such job". */
struct gck_slurm_answer {
	bool ok;
	int code;
	const char *error;
	const json_t *data;
};

typedef void gck_slurm_fn(void *arg, const struct gck_slurm_answer *answer);

/* Has Slurm refused? Otherwise another try may succeed. */
bool gck_slurm_refused(const struct gck_slurm_answer *answer);

struct gck_world {
	/* Queue a message to an agent. A failure shows later, as a lost connection. */
	void (*send)(struct gck_agent *agent, const json_t *body);
	/* Close the connection of an agent that was replaced or refused. The agent stays valid
	 * until the core has returned. */
	void (*drop)(struct gck_agent *agent);
	int (*journal)(struct gck_core *core, const json_t *record, bool sync,
		       struct gck_error *err);
	/* Replace the journal's contents by the whole state. */
	int (*rewrite)(struct gck_core *core, struct gck_error *err);
	/* (Re)start a timer of a step; 0 ms stops it. */
	void (*timer)(struct gck_core *core, struct gck_step *step, enum gck_timer which,
		      unsigned ms);
	/* Ask Slurm without waiting (request is stolen); done is called later, exactly once. */
	void (*slurm)(struct gck_core *core, json_t *request, gck_slurm_fn *done, void *arg);
	int64_t (*now_ms)(void); /* CLOCK_REALTIME */
	void (*nonce)(char out[GCK_NONCE_TEXT]);
	/* Wrap the job's data key: job->key itself, job->key wrapped again if the site's wrapping
	 * key has changed, or a new key. ENOKEY: this site has no wrapping key. */
	int (*wrap)(struct gck_core *core, const struct gck_job *job, char out[GCK_WRAPPED_MAX],
		    struct gck_error *err);
	/* Check that wrap could succeed; creates, reads and logs nothing. */
	int (*can_wrap)(struct gck_core *core, struct gck_error *err);
};

/* Takes an event of a step that lives: gck_machine_step(), given to the core when it is made. */
typedef void gck_transition_fn(struct gck_core *core, struct gck_step *step, enum gck_event event);

#define GCK_EVENT_QUEUE 4096

struct gck_core {
	const struct gck_conf *conf;
	const struct gck_world *world;
	gck_transition_fn *transition;
	struct gck_state state;
	struct gck_operation *operations;
	bool behind;                /* the journal lacks a part of the state */
	int64_t since;              /* seconds since the epoch */
	json_int_t slurmd_timeout_s; /* SlurmdTimeout; -1: unknown, Slurm has not answered yet */
	struct {
		struct gck_step *step;
		enum gck_event event;
	} queue[GCK_EVENT_QUEUE];
	unsigned head, count;
	bool emptying;              /* the queue is being emptied, or events are deferred */
	unsigned impossible;        /* events that no phase expected: bugs; tests check it */
};

/* Journal a record (stolen), then apply it to the state. With sync the record is on the disk when
 * this returns. */
int gck_core_record(struct gck_core *core, json_t *record, bool sync, struct gck_error *err)
	GCK_MUST_CHECK;

/* The same for a record that is applied even if it cannot be journaled; a failure is logged. */
void gck_core_note(struct gck_core *core, json_t *record, bool sync);

/* New records {"t": type, "job":, "step":} and {..., "seq":}; the caller adds members. */
json_t *gck_record(const struct gck_step *step, const char *type);
json_t *gck_record_seq(const struct gck_step *step, const char *type, uint32_t seq);

/* Ask Slurm to requeue a job, and to hold it if `hold`; comment: why, for its AdminComment. */
void gck_core_requeue(struct gck_core *core, const struct gck_job *job, bool hold,
		      const char *comment, gck_slurm_fn *done, void *arg);

/* The job's start began before the journal was in doubt (gck_state.doubt): records of it may be
 * missing. */
bool gck_core_doubts(const struct gck_core *core, const struct gck_job *job);

/* Queue an event for a step that lives, then empty the queue unless that is under way. */
void gck_raise(struct gck_core *core, struct gck_step *step, enum gck_event event);

/* Between these two calls events are only queued: for callers whose own data the actions may free.
 * gck_undefer takes what gck_defer returned. */
bool gck_defer(struct gck_core *core);
void gck_undefer(struct gck_core *core, bool was);

/* Names for the log and for clients. */
const char *gck_phase_name(enum gck_phase phase);
const char *gck_event_name(enum gck_event event);

/* Can a checkpoint hold ranks in this phase? */
bool gck_phase_holds(enum gck_phase phase);

#endif
