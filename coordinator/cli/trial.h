/* SPDX-License-Identifier: Apache-2.0
 * Building a rank of a commit on this node, to see whether it can be restored. The process never
 * runs, and no file is changed. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "coordinator/cli/progress.h"
#include "storage/document/document.h"
#include "storage/store/store.h"

/* Build each rank of the commit, one after the other. Returns a new array with an entry for each:
 * {"rank": 0, "builds": true, "skipped": "MPI"}, {.., "builds": false, "error": ".."}, or
 * {.., "builds": true, "exit": status} for one that had finished. NULL if the commit cannot be
 * read, or the caller cannot run such processes. preload: libgpuckpt-preload.so. */
json_t *trial_of_commit(const char *preload, struct gck_store *s, uint32_t seq, const char *hash,
			struct progress *progress, struct gck_error *err) GCK_MUST_CHECK;

#endif
