/* SPDX-License-Identifier: Apache-2.0
 * Answers of agents to the order of a phase, their reports of exits, and time limits. */
#ifndef GCK_ANSWER_H
#define GCK_ANSWER_H

#include "coordinator/core/model/live.h"

/* The order that the agents answer in this phase, as `done` names it; "" if none. */
const char *gck_phase_question(enum gck_phase phase);

/* `done`: takes the data if it answers the current phase, and raises the event that follows. */
void gck_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		const json_t *body);

/* `progress`: bytes done so far; restarts the time limit of the phase. */
void gck_answer_progress(struct gck_core *core, struct gck_step *step, struct gck_node *node,
			 const json_t *body);

/* `exit`, or one member of `exited`: a rank has ended. gck_answer_exits takes all of `exited`. */
void gck_answer_exit(struct gck_core *core, struct gck_step *step, const json_t *one);
void gck_answer_exits(struct gck_core *core, struct gck_step *step, const json_t *body);

/* `bye`: the step has ended on this node. */
void gck_answer_bye(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* The time limit of the phase has expired. */
void gck_answer_timeout(struct gck_core *core, struct gck_step *step);

#endif
