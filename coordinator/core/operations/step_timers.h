/* SPDX-License-Identifier: Apache-2.0
 * Three timers of a step: the next checkpoint by interval=, the keepalive while ranks are held,
 * and a line for the user about a restart that takes long. */
#ifndef GCK_STEP_TIMERS_H
#define GCK_STEP_TIMERS_H

#include "coordinator/core/model/core.h"

/* (Re)start the interval of an idle step. After failures the first retry comes sooner, further ones
 * later and later, at most the interval apart. */
void gck_interval_arm(struct gck_core *core, struct gck_step *step);

/* GCK_TIMER_INTERVAL has expired. */
void gck_interval_due(struct gck_core *core, struct gck_step *step);

/* Send `hold` to the agents of a step whose ranks are held, several times per `timeout`. An agent
 * that hears nothing releases its ranks, since its coordinator may be dead or hang. gck_hold_arm
 * follows a change of phase; gck_hold_due, GCK_TIMER_HOLD. */
void gck_hold_arm(struct gck_core *core, struct gck_step *step);
void gck_hold_due(struct gck_core *core, struct gck_step *step);

/* Send it now: Slurm is about to be asked to requeue the job, or has requeued it, which the agents
 * must know. */
void gck_hold_send(struct gck_core *core, struct gck_step *step);

/* A restart begins; GCK_TIMER_SLOW. */
void gck_slow_arm(struct gck_core *core, struct gck_step *step);
void gck_slow_due(struct gck_core *core, struct gck_step *step);

#endif
