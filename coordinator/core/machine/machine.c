/* SPDX-License-Identifier: Apache-2.0
 * The table of the state machine. */
#include "coordinator/core/machine/machine.h"

#include "common/base/log.h"
#include "coordinator/core/actions/actions.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/operations/requeue.h"
#include "coordinator/core/operations/step_timers.h"

/* The wait goes on: a lost agent may come back, a late answer no longer matters. */
static void nothing(struct gck_core *core, struct gck_step *step)
{
	(void)core;
	(void)step;
}

struct transition {
	gck_action_fn *action; /* NULL: impossible; logged and ignored */
	enum gck_phase next;
};

/* Each transition is marked by how it was tested:
 *   M  model only: driven by coordinator/core/test/model.c and scripts over its world
 *   A  seen with a real agent on a real cluster */
#define ON(event, next, action) [GCK_##event] = {action, GCK_##next}

static const struct transition table[GCK_PHASES][GCK_EVENTS] = {
	[GCK_GATHERING] = {
		ON(RESTORE,   BUILDING,   gck_act_build),     /* A */
		ON(RUNS,      IDLE,       gck_act_idle),      /* A */
		ON(REFUSED,   ENDING,     nothing),           /* M */
		ON(NONE_LEFT, DOOMED,     gck_act_doom),      /* M */
		ON(TIMEOUT,   GATHERING,  gck_act_gather_late), /* A */
		ON(LOST,      GATHERING,  nothing),           /* M */
		ON(BACK,      GATHERING,  nothing),           /* A */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_BUILDING] = {
		ON(ALL,       FILING,     gck_act_files),     /* A */
		ON(FAILED,    BUILDING,   gck_act_fallback),  /* A */
		ON(TIMEOUT,   BUILDING,   gck_act_fallback),  /* M */
		ON(NONE_LEFT, DOOMED,     gck_act_doom),      /* A */
		ON(LOST,      BUILDING,   nothing),           /* M */
		ON(BACK,      BUILDING,   gck_act_rebuild),   /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_FILING] = {
		ON(ALL,       STARTING,   gck_act_run),       /* A */
		ON(FAILED,    DOOMED,     gck_act_failed_start), /* M */
		ON(TIMEOUT,   FILING,     gck_act_refile),    /* M */
		ON(LOST,      FILING,     nothing),           /* M */
		ON(BACK,      FILING,     gck_act_refile),    /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_STARTING] = {
		ON(ALL,       IDLE,       gck_act_started),   /* A */
		ON(FAILED,    DOOMED,     gck_act_failed_start), /* A */
		ON(TIMEOUT,   STARTING,   gck_act_rerun),     /* M */
		ON(LOST,      STARTING,   nothing),           /* A */
		ON(BACK,      STARTING,   gck_act_rerun),     /* A */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_DOOMED] = {
		ON(LOST,      DOOMED,     nothing),           /* M */
		ON(BACK,      DOOMED,     gck_act_doomed),    /* M */
		ON(TIMEOUT,   DOOMED,     gck_act_give_back), /* M */
		ON(FAILED,    DOOMED,     nothing),           /* M */
		ON(ALL,       DOOMED,     nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* A */
	},
	[GCK_IDLE] = {
		ON(START,     CALLING,    gck_act_call),      /* A */
		ON(RESTORE,   BUILDING,   gck_act_build),     /* M */
		ON(RUNS,      IDLE,       nothing),           /* M */
		ON(NONE_LEFT, DOOMED,     gck_act_doom),      /* M */
		ON(REFUSED,   ENDING,     nothing),           /* M */
		ON(FOUND,     HELD,       gck_requeue_recovered), /* M */
		ON(LOST,      IDLE,       gck_act_alone),     /* A */
		ON(TIMEOUT,   IDLE,       gck_act_ended),     /* M */
		ON(BACK,      IDLE,       nothing),           /* A */
		ON(FAILED,    IDLE,       nothing),           /* M */
		ON(ALL,       IDLE,       nothing),           /* M */
		ON(CANCEL,    IDLE,       gck_act_idle),      /* M */
		ON(RELEASE,   IDLE,       nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* A */
	},
	[GCK_OVER] = {
		ON(LOST,      OVER,       nothing),           /* A */
		ON(FAILED,    OVER,       nothing),           /* M */
		ON(MET,       OVER,       nothing),           /* M */
		ON(MET_HELD,  OVER,       nothing),           /* M */
		ON(CANCEL,    OVER,       nothing),           /* M */
		ON(RELEASE,   OVER,       nothing),           /* M */
		ON(TERMINATE, OVER,       nothing),           /* M */
		ON(TAKEN,     OVER,       nothing),           /* M */
		ON(ENDED,     OVER,       nothing),           /* A */
	},
	[GCK_CALLING] = {
		ON(ALL,       PREPARING,  gck_act_prepare),   /* A */
		ON(TIMEOUT,   PREPARING,  gck_act_prepare),   /* A */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      CALLING,    nothing),           /* M */
		ON(BACK,      CALLING,    gck_act_called),    /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_PREPARING] = {
		ON(ALL,       PREPARED,   gck_operation_meet), /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      PREPARING,  nothing),           /* M */
		ON(BACK,      PREPARING,  gck_act_repeat),    /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_PREPARED] = {
		ON(MET,       QUIESCING,  gck_act_quiesce),   /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      PREPARED,   nothing),           /* M */
		ON(BACK,      PREPARED,   nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_QUIESCING] = {
		ON(ALL,       QUIESCED,   gck_act_quiesced),  /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      ABORTING,   gck_act_abort),     /* A */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_QUIESCED] = {
		ON(MET,       FREEZING,   gck_act_freeze),    /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      ABORTING,   gck_act_abort),     /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_FREEZING] = {
		ON(ALL,       FROZEN,     gck_operation_meet), /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      ABORTING,   gck_act_abort),     /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_FROZEN] = {
		ON(MET,       RESUMING,   gck_act_resume),    /* A */
		ON(MET_HELD,  HELD_WRITING, gck_act_write),   /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      ABORTING,   gck_act_abort),     /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_RESUMING] = {
		ON(ALL,       RESUMED,    gck_act_resumed),   /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      ABORTING,   gck_act_abort),     /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_RESUMED] = {
		ON(MET,       WRITING,    gck_act_write),     /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      RESUMED,    nothing),           /* M */
		ON(BACK,      RESUMED,    nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_WRITING] = {
		ON(ALL,       COMMITTING, gck_act_commit),    /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* A */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      WRITING,    nothing),           /* A */
		ON(BACK,      WRITING,    gck_act_repeat),    /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* A */
	},
	[GCK_COMMITTING] = {
		ON(ALL,       IDLE,       gck_act_committed), /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    COMMITTING, nothing),           /* M */
		ON(LOST,      COMMITTING, nothing),           /* M */
		ON(BACK,      COMMITTING, gck_act_repeat),    /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_ABORTING] = {
		ON(ALL,       IDLE,       gck_act_idle),      /* A */
		ON(FAILED,    ABORTING,   nothing),           /* M */
		ON(MET,       ABORTING,   nothing),           /* M */
		ON(MET_HELD,  ABORTING,   nothing),           /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort_late), /* M */
		ON(LOST,      ABORTING,   gck_act_recount),   /* A */
		ON(BACK,      ABORTING,   gck_act_repeat),    /* M */
		ON(CANCEL,    ABORTING,   nothing),           /* M */
		ON(RELEASE,   ABORTING,   gck_act_abort_go),  /* M */
		ON(TAKEN,     ENDING,     gck_act_taken),     /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* A */
	},
	[GCK_HELD_WRITING] = {
		ON(ALL,       HELD_COMMITTING, gck_act_commit), /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      HELD_WRITING, nothing),         /* M */
		ON(BACK,      HELD_WRITING, gck_act_repeat),  /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_HELD_COMMITTING] = {
		ON(ALL,       HELD,       gck_act_committed), /* A */
		ON(FAILED,    ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_abort),     /* M */
		ON(CANCEL,    ABORTING,   gck_act_abort),     /* M */
		ON(LOST,      HELD_COMMITTING, nothing),      /* M */
		ON(BACK,      HELD_COMMITTING, gck_act_repeat), /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_HELD] = {
		ON(RELEASE,   RELEASING,  gck_act_release),   /* M */
		ON(CANCEL,    RELEASING,  gck_act_release),   /* M */
		ON(TIMEOUT,   HELD,       gck_requeue_recovered), /* M */
		ON(TERMINATE, ENDING,     gck_act_terminate), /* A */
		ON(TAKEN,     ENDING,     gck_act_taken),     /* A */
		ON(FAILED,    HELD,       nothing),           /* M */
		ON(LOST,      HELD,       nothing),           /* M */
		ON(BACK,      HELD,       nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_RELEASING] = {
		ON(ALL,       IDLE,       gck_act_idle),      /* M */
		ON(FAILED,    RELEASING,  nothing),           /* M */
		ON(TIMEOUT,   IDLE,       gck_act_idle),      /* M */
		ON(LOST,      RELEASING,  gck_act_recount),   /* M */
		ON(BACK,      RELEASING,  gck_act_repeat),    /* M */
		ON(CANCEL,    RELEASING,  nothing),           /* M */
		ON(RELEASE,   RELEASING,  nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
	[GCK_ENDING] = {
		ON(TIMEOUT,   ENDING,     gck_act_end_late),  /* M */
		ON(RELEASE,   RELEASING,  gck_act_release),   /* M */
		ON(FAILED,    ENDING,     nothing),           /* M */
		ON(ALL,       ENDING,     nothing),           /* M */
		ON(CANCEL,    ENDING,     nothing),           /* M */
		ON(LOST,      ENDING,     gck_act_ended),     /* A */
		ON(BACK,      ENDING,     gck_act_end_again), /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* A */
	},
	[GCK_RECOVERING] = {
		ON(FOUND,     HELD,       gck_act_adopt),     /* M */
		ON(MISSING,   ABORTING,   gck_act_abort),     /* M */
		ON(TIMEOUT,   ABORTING,   gck_act_unheard),   /* M */
		ON(FAILED,    RECOVERING, nothing),           /* M */
		ON(LOST,      RECOVERING, nothing),           /* M */
		ON(BACK,      RECOVERING, nothing),           /* M */
		ON(ENDED,     OVER,       gck_act_over),      /* M */
	},
};

void gck_machine_step(struct gck_core *core, struct gck_step *step, enum gck_event event)
{
	struct gck_live *live = step->live;
	const struct transition *t = &table[live->phase][event];

	if (!t->action) {
		core->impossible++;
		gck_warn("step %u.%u: \"%s\" cannot be while it is %s; ignored", step->job->id,
			 step->id, gck_event_name(event), gck_phase_name(live->phase));
		return;
	}
	gck_debug("step %u.%u: %s, %s -> %s", step->job->id, step->id, gck_event_name(event),
		  gck_phase_name(live->phase), gck_phase_name(t->next));
	if (t->next != live->phase)
		live->phase_since_ms = core->world->now_ms();
	live->phase = t->next;
	gck_hold_arm(core, step);
	t->action(core, step);
}
