/* SPDX-License-Identifier: Apache-2.0
 * Operations: what somebody wants for a step or for all steps of a job (create, vacate, requeue),
 * and whom it is told. An operation waits until its steps are idle, takes one checkpoint of each
 * and, for requeue, asks Slurm when all are committed and held. */
#ifndef GCK_OPERATION_H
#define GCK_OPERATION_H

#include "coordinator/core/model/live.h"

enum gck_verb { GCK_CREATE, GCK_VACATE, GCK_REQUEUE };

#define GCK_EVERY_STEP UINT32_MAX

/* Somebody who waits. Functions are called until the end or until gck_operation_leave. */
struct gck_waiter {
	struct gck_waiter *next;
	void *arg;
	bool wait;  /* false: until it has begun */
	void (*event)(void *arg, const char *text, const json_t *data);
	void (*end)(void *arg, const char *error, const json_t *steps); /* error NULL: done */
};

/* Begin, or join what is under way. step: an id or GCK_EVERY_STEP. waiter (copied) may be NULL.
 * -1 with the reason if it cannot be. */
int gck_operation_begin(struct gck_core *core, enum gck_verb verb, uint32_t job, uint32_t step,
			const char *reason, const struct gck_waiter *waiter, struct gck_error *err);

/* The same for a rank of the step that asks for a checkpoint itself: it joins whatever takes one of this
 * step, and waits there alone. */
int gck_operation_ask(struct gck_core *core, struct gck_step *step, const char *reason,
		      const struct gck_waiter *waiter, struct gck_error *err);

/* arg no longer waits anywhere. */
void gck_operation_leave(struct gck_core *core, const void *arg);

/* A requeue of this job is under way or waits. */
bool gck_operation_requeues(const struct gck_core *core, uint32_t job);

/* What a step's checkpoint came to. */
void gck_operation_phase(struct gck_core *core, struct gck_step *step);
void gck_operation_progress(struct gck_core *core, struct gck_step *step);
void gck_operation_committed(struct gck_core *core, struct gck_step *step, bool held);
void gck_operation_failed(struct gck_core *core, struct gck_step *step, const char *why);
void gck_operation_ended(struct gck_core *core, struct gck_step *step);

/* A step has become idle: what waits for it may begin. */
void gck_operation_idle(struct gck_core *core, struct gck_step *step);

/* Free everything; nobody is told. */
void gck_operation_free_all(struct gck_core *core);

#endif
