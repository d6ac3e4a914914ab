/* SPDX-License-Identifier: Apache-2.0
 * Operations: create, vacate or requeue, for a step or for all steps of a job. An operation waits
 * until its steps are idle and takes one checkpoint of each. A requeue asks Slurm when all are
 * committed and held. */
#ifndef GCK_OPERATION_H
#define GCK_OPERATION_H

#include "coordinator/core/model/live.h"

enum gck_verb { GCK_CREATE, GCK_VACATE, GCK_REQUEUE };

#define GCK_EVERY_STEP UINT32_MAX

/* A client that waits for an operation. Its functions are called until the end or
 * gck_operation_leave. */
struct gck_waiter {
	struct gck_waiter *next;
	void *arg;
	bool wait;  /* false: waits only until the checkpoints have begun */
	bool patient; /* its checkpoint is tried again until timeout=, not only some times */
	void (*event)(void *arg, const char *text, const json_t *data);
	void (*end)(void *arg, const char *error, const json_t *steps); /* error NULL: success */
};

/* Begin an operation, or join the same one if it is under way. step: an id or GCK_EVERY_STEP.
 * waiter is copied and may be NULL. -1 with the reason if the operation is not possible. */
int gck_operation_begin(struct gck_core *core, enum gck_verb verb, uint32_t job, uint32_t step,
			const char *reason, const struct gck_waiter *waiter, struct gck_error *err);

/* Ask for a checkpoint of one step on behalf of a rank: join any operation that takes one.
 * waiter->arg then waits for no other operation. */
int gck_operation_ask(struct gck_core *core, struct gck_step *step, const char *reason,
		      const struct gck_waiter *waiter, struct gck_error *err) GCK_MUST_CHECK;

/* Remove the waiters with this arg from all operations. */
void gck_operation_leave(struct gck_core *core, const void *arg);

/* Is a requeue of this job under way, or waiting to begin? */
bool gck_operation_requeues(const struct gck_core *core, uint32_t job);

/* Reports about the checkpoint of a step, for the operation that it belongs to. */
void gck_operation_phase(struct gck_core *core, struct gck_step *step);
void gck_operation_progress(struct gck_core *core, struct gck_step *step);
void gck_operation_committed(struct gck_core *core, struct gck_step *step, bool held);
void gck_operation_failed(struct gck_core *core, struct gck_step *step, const char *why);
void gck_operation_ended(struct gck_core *core, struct gck_step *step);

/* The step has come to a point of its checkpoint where the steps of its operation wait for each
 * other. GCK_MET or GCK_MET_HELD is raised when all are there. */
void gck_operation_meet(struct gck_core *core, struct gck_step *step);

/* What the checkpoint of a step has waited for, for the operation's answer. */
void gck_operation_waited(const struct gck_step *step, const char *why);

/* A checkpoint failed for a reason that passes. Is it tried again? It then has not failed for its
 * operation, which reserves the step and begins again some time after it has become idle; the other
 * steps of the operation are called back, to be tried again with it. */
bool gck_operation_tries_again(struct gck_step *step) GCK_MUST_CHECK;
void gck_operation_again(struct gck_core *core, struct gck_step *step); /* that time has come */

/* A step has become idle: begin the operations that waited for it. */
void gck_operation_idle(struct gck_core *core, struct gck_step *step);

/* Free all operations; waiters are not told. */
void gck_operation_free_all(struct gck_core *core);

#endif
