/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint: whether it can be taken, and its record. Its actions are in actions.h. */
#ifndef GCK_CHECKPOINT_H
#define GCK_CHECKPOINT_H

#include "coordinator/core/model/live.h"

/* 0 if the job is not requeued, every node is connected and some rank has not ended; else -1 with
 * the reason. */
int gck_checkpoint_ready(const struct gck_step *step, struct gck_error *err) GCK_MUST_CHECK;

/* The commit object is written: journal the commit. It must be journaled before anybody is told. */
int gck_checkpoint_journal(struct gck_core *core, struct gck_step *step, struct gck_error *err)
	GCK_MUST_CHECK;

/* A commit in doubt was found in the store. It counts also if the journal is full: it will be found
 * again. */
void gck_checkpoint_found(struct gck_core *core, struct gck_step *step);

#endif
