/* SPDX-License-Identifier: Apache-2.0
 * The state machine of a step. One table, in machine.c, holds what happens next in a checkpoint or
 * a restart: (phase, event) -> (next phase, action). */
#ifndef GCK_MACHINE_H
#define GCK_MACHINE_H

#include "coordinator/core/model/core.h"

/* Take one event: enter the next phase and run its action. An event that the phase does not expect
 * is logged and ignored. This is core.h's `transition`: events come through the queue of
 * gck_raise(). */
void gck_machine_step(struct gck_core *core, struct gck_step *step, enum gck_event event);

#endif
