/* SPDX-License-Identifier: Apache-2.0
 * Which commits are needed. A step needs the commit that it would be restarted from, if it is not
 * finished and Slurm knows its job, and the commit that it runs from. Either may belong to another
 * job of the same user (restart=JOB:SEQ). A cancelled job may be requeued by hand until Slurm
 * forgets it. */
#ifndef GCK_NEEDED_H
#define GCK_NEEDED_H

#include "coordinator/core/model/core.h"

/* The step that needs this commit, or NULL. */
const struct gck_step *gck_commit_needed(const struct gck_core *core, const struct gck_step *step,
					 uint32_t seq);

/* The same for many commits: loads once what steps need of other steps. -1 without memory. */
struct gck_needed {
	size_t n;
	struct gck_wanted {
		uid_t uid;
		uint32_t job, step, seq;
	} *v;
};

int gck_needed_load(struct gck_needed *n, const struct gck_core *core) GCK_MUST_CHECK;
bool gck_needed_has(const struct gck_needed *n, const struct gck_step *step, uint32_t seq);
void gck_needed_free(struct gck_needed *n);

#endif
