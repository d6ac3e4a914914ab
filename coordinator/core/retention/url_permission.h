/* SPDX-License-Identifier: Apache-2.0
 * What of a step's store is signed for whom. That the job is the asker's is known before. */
#ifndef GCK_URL_PERMISSION_H
#define GCK_URL_PERMISSION_H

#include "coordinator/core/model/live.h"
#include "storage/s3/signer.h"

struct gck_permit {
	const struct gck_step *step; /* NULL: not known here */
	const struct gck_node *node; /* the asker is this node's agent, of that step; NULL: it is not */
	bool owner;                  /* the asker is the job's owner himself */
};

/* Reading and listing: always. Writing: what the checkpoint under way puts into its own directory,
 * by the step's agents; its commit, by the agent that was told to write it; an import's directories and
 * commit, by the owner while it is under way. Removing: what the journal knows to be no commit (any
 * more) and not under way. -1 with EACCES. */
int gck_permit(const struct gck_permit *who, enum gck_sign_verb verb, const char *name,
	       struct gck_error *err);

#endif
