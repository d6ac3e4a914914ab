/* SPDX-License-Identifier: Apache-2.0
 * What comes back from the agents while something is under way, and what does not come in time. */
#ifndef GCK_ANSWER_H
#define GCK_ANSWER_H

#include "coordinator/core/model/live.h"

/* What a phase asks of the agents, by the name that `done` has for it; "" if nothing. */
const char *gck_phase_question(enum gck_phase phase);

/* `done`: what came with it is taken if it answers the phase's question; the machine is told. */
void gck_answer(struct gck_core *core, struct gck_step *step, struct gck_node *node,
		const json_t *body);

/* `progress`: what is waited for goes on. */
void gck_answer_progress(struct gck_core *core, struct gck_step *step, struct gck_node *node,
			 const json_t *body);

/* `exit`, or one member of `exited`: a rank has ended. All of them that come with a body. */
void gck_answer_exit(struct gck_core *core, struct gck_step *step, const json_t *one);
void gck_answer_exits(struct gck_core *core, struct gck_step *step, const json_t *body);

/* `bye`: the step ends on this node. */
void gck_answer_bye(struct gck_core *core, struct gck_step *step, struct gck_node *node);

/* The phase's time is up. */
void gck_answer_timeout(struct gck_core *core, struct gck_step *step);

#endif
