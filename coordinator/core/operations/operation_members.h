/* SPDX-License-Identifier: Apache-2.0
 * The parts of an operation, for operation.c and requeue.c: its members and its waiters. */
#ifndef GCK_OPERATION_MEMBERS_H
#define GCK_OPERATION_MEMBERS_H

#include "coordinator/core/operations/operation.h"

enum outcome {
	GOING,     /* under way, or not begun */
	COMMITTED, /* committed, its ranks run on */
	HELD,      /* committed, its ranks are held */
	LEAVING,   /* its ranks are being ended */
	LEFT,      /* its ranks have ended, as requested */
	FAILED,
};

struct member {
	struct gck_step *step;
	enum outcome outcome;
	unsigned tries;  /* of its checkpoint, that failed for a passing reason */
	bool waits;      /* ... until the next one: GOING, and its step is idle or about to be */
	enum gck_phase met; /* the last point at which the others were met */
	json_t *result;
};

struct gck_operation {
	struct gck_operation *next;
	struct gck_core *core;
	enum gck_verb verb;
	uint32_t job, step;
	char reason[200];
	bool begun;    /* its checkpoints were started */
	int64_t begun_ms;
	bool asking;   /* waits for Slurm's answer */
	char error[480];
	int64_t told_ms; /* when waiters were last told the progress */
	struct member *members;
	size_t nmembers;
	struct gck_waiter *waiters;
};

/* Count the members with an outcome; raise an event for those, and give them another outcome. */
size_t gck_members_count(const struct gck_operation *op, enum outcome outcome);
void gck_members_raise(struct gck_operation *op, enum outcome from, enum outcome to,
		       enum gck_event event);

struct member *gck_members_find(struct gck_operation *op, const struct gck_step *step);
int gck_members_add(struct gck_operation *op, struct gck_step *step) GCK_MUST_CHECK;

/* Can the step be a member? It must live and not be ending. */
bool gck_members_may(const struct gck_step *step);

/* One instant for all members: no step goes on before all are frozen. They wait for each other at
 * four points of their checkpoints: PREPARED, QUIESCED, FROZEN, RESUMED. A member that fails for
 * good is not waited for. One that is tried again takes the others with it. Waits are bounded: each
 * phase has its time limit, and a step waits no longer than it may be held. */

/* Raise GCK_MET (GCK_MET_HELD: its ranks stay held) for the members that wait at a point which all
 * others have reached. */
void gck_instant_check(struct gck_operation *op);

/* Raise it for a step. */
void gck_instant_go(struct gck_core *core, struct gck_step *step);

/* Can a member be tried again, with all others? Not if the ranks of one have gone on and its commit
 * can no longer be given up. */
bool gck_instant_open(const struct gck_operation *op);

/* A member is tried again: the others give up their checkpoints and are tried again, too. Not
 * those that have begun nothing yet, or whose ranks stay held until the end. */
void gck_instant_call_back(struct gck_operation *op, const struct member *again);

/* Waiters are told, and freed, by the operation that they wait for. add copies; -1 without
 * memory. */
int gck_waiter_add(struct gck_waiter **list, const struct gck_waiter *waiter) GCK_MUST_CHECK;
void gck_waiter_remove(struct gck_waiter **list, const void *arg);
bool gck_waiter_any_patient(const struct gck_waiter *list);

/* Tell every waiter the progress of a step's checkpoint. */
void gck_waiter_tell_phase(const struct gck_waiter *list, const struct gck_step *step);

/* Tell the waiters that wait only for the beginning that it succeeded, and remove them. */
void gck_waiter_end_hasty(struct gck_waiter **list, const json_t *steps);

/* The operation that the step's checkpoint belongs to, or NULL. */
struct gck_operation *gck_operation_of(const struct gck_step *step);

/* Begin a member's checkpoint. */
void gck_operation_start(struct gck_operation *op, struct member *m);

/* Keep the first error; step may be NULL. */
void gck_operation_error(struct gck_operation *op, const struct gck_step *step, const char *why);

/* The members' results: a new array. */
json_t *gck_operation_results(const struct gck_operation *op);

/* Tell the waiters the end and free the operation, which must be one of the core's. */
void gck_operation_finish(struct gck_operation *op);

/* Free an operation; its waiters are not told. */
void gck_operation_free(struct gck_operation *op);

#endif
