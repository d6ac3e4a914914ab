/* SPDX-License-Identifier: Apache-2.0
 * A job is given back: Slurm requeues it, and holds it if it cannot run for a reason that only its
 * user can remove. */
#ifndef GCK_GIVE_BACK_H
#define GCK_GIVE_BACK_H

#include "coordinator/core/model/core.h"

enum gck_given {
	GCK_GIVEN,     /* the job is requeued; the hold is in the journal, with its reason */
	GCK_NOT_GIVEN, /* Slurm refuses that: the step ends */
	GCK_NOT_YET,   /* Slurm did not answer: ask again */
};

/* The step may have ended meanwhile, and may have no live part: Slurm kills before it answers. */
typedef void gck_given_fn(struct gck_core *core, struct gck_step *step, enum gck_given given);

/* Ask Slurm to requeue the step's job, and to hold it as well; why becomes its AdminComment. done
 * is called unless the job is in another start by then. */
void gck_give_back(struct gck_core *core, const struct gck_step *step, bool hold, const char *why,
		   gck_given_fn *done);

#endif
