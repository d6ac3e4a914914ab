/* SPDX-License-Identifier: Apache-2.0
 * The actions of machine.c's table: what is done when an event leads a step from one phase to the
 * next. An action that fails leaves the reason in live->error and raises GCK_FAILED. */
#ifndef GCK_ACTIONS_H
#define GCK_ACTIONS_H

#include "coordinator/core/model/core.h"

typedef void gck_action_fn(struct gck_core *core, struct gck_step *step);

/* checkpoint.c */
gck_action_fn gck_act_call, gck_act_called, gck_act_prepare, gck_act_freeze, gck_act_resume,
	gck_act_resumed, gck_act_write, gck_act_commit, gck_act_committed, gck_act_adopt;
gck_action_fn gck_act_repeat; /* repeats the order to the agent that came back */

/* quiesce.c */
gck_action_fn gck_act_quiesce, gck_act_quiesced;

/* ending.c */
gck_action_fn gck_act_abort, gck_act_abort_go, gck_act_abort_late, gck_act_unheard, gck_act_release,
	gck_act_idle, gck_act_terminate, gck_act_end_again, gck_act_taken, gck_act_end_late,
	gck_act_over;
gck_action_fn gck_act_recount; /* counts lost agents as answered */
gck_action_fn gck_act_ended;   /* raises GCK_ENDED if no agent is connected */
gck_action_fn gck_act_alone;   /* ... after a time limit, if no agent is connected */

/* restart.c */
gck_action_fn gck_act_gather_late;

/* restart_phases.c */
gck_action_fn gck_act_build, gck_act_rebuild, gck_act_fallback, gck_act_files, gck_act_refile,
	gck_act_run, gck_act_rerun, gck_act_started, gck_act_doom, gck_act_failed_start,
	gck_act_give_back, gck_act_doomed;

#endif
