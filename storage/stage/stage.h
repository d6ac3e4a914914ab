/* SPDX-License-Identifier: Apache-2.0
 * Staging on a disk of the node. Objects that are put lie on that disk until a flush uploads
 * them to the store; reads look there first. What the disk cannot take or give goes directly to
 * the store and from it. Documents, lengths, lists and removal are the store's. */
#ifndef GCK_STAGE_H
#define GCK_STAGE_H

#include "storage/base/open_store.h"

/* Open the stage of a step on this node, <dir>/gpuckpt-<uid>/<cluster>/<job>/<step>, a store
 * without commits. Everything in it is the user's own and 0700. dir must belong to root or the
 * user, and be sticky where others may write to it. ENOENT: the step has none (create makes what
 * is missing below dir). */
GCK_MUST_CHECK struct gck_store *gck_stage_open(const char *dir, const char *cluster, uint32_t job,
						uint32_t step, bool create, struct gck_error *err);

/* Put a stage (taken over, also on failure) in front of s. From then on objects that are put lie in
 * the stage alone until the image's manifest is written: then they are read back, compared and
 * uploaded, and gck_store_on_progress's function is called. Objects that the stage does not take go
 * to the store at once: a full disk is no failure. Readers take whole objects from the stage. Call
 * it before writers and readers are opened, for a store that one writer writes to. */
GCK_MUST_CHECK int gck_store_stage(struct gck_store *s, struct gck_store *stage,
				   struct gck_error *err);

/* Bytes that writing the manifest will upload. why: why the stage did not take everything (code 0:
 * it did). */
uint64_t gck_store_staged_bytes(const struct gck_store *s, struct gck_error *why);

/* Remove from a stage what belongs to checkpoints before seq and what the images of seq that were
 * written here do not refer to. */
GCK_MUST_CHECK int gck_stage_prune(struct gck_store *stage, uint32_t seq, struct gck_error *err);

/* Remove everything from a stage. */
GCK_MUST_CHECK int gck_stage_clear(struct gck_store *stage, struct gck_error *err);

/* Remove what the user's other steps left in dir and have not changed for age_s seconds. */
void gck_stage_sweep(const char *dir, const char *cluster, uint32_t job, uint32_t step,
		     unsigned age_s);

/* ---- stage.c -------------------------------------------------------------------------------- */

/* A backend above `local` (a `file:` backend of the node) and the backend of s, both taken over. */
GCK_MUST_CHECK struct gck_backend *gck_stage_backend(struct gck_store *s, struct gck_backend *local,
						     struct gck_error *err);

/* As gck_store_staged_bytes. */
uint64_t gck_stage_pending_bytes(struct gck_backend *b, struct gck_error *why);

#endif
