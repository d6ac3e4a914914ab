/* SPDX-License-Identifier: Apache-2.0
 * Which commits are needed: by a step that would be restarted from it, of a job that Slurm knows and not
 * finished, or that runs from it. It may be another job's of the same user (restart=JOB:SEQ). A job that was
 * cancelled may be requeued by hand until Slurm forgets it. */
#ifndef GCK_NEEDED_H
#define GCK_NEEDED_H

#include "coordinator/core/model/core.h"

/* The step that needs it, or NULL. */
const struct gck_step *gck_commit_needed(const struct gck_core *core, const struct gck_step *step,
					 uint32_t seq);

/* The same for many commits: what steps need of others' is looked for once. -1: no memory. */
struct gck_needed {
	size_t n;
	struct gck_wanted {
		uid_t uid;
		uint32_t job, step, seq;
	} *v;
};

int gck_needed_load(struct gck_needed *n, const struct gck_core *core);
bool gck_needed_has(const struct gck_needed *n, const struct gck_step *step, uint32_t seq);
void gck_needed_free(struct gck_needed *n);

#endif
