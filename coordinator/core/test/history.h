/* SPDX-License-Identifier: Apache-2.0
 * Records in the journal of a fake world's coordinator: jobs with step 0, and its commits. */
#ifndef GCK_TEST_HISTORY_H
#define GCK_TEST_HISTORY_H

#include "coordinator/core/test/fake_world.h"

void past_job(struct fake *f, unsigned id, unsigned uid, const char *store, const char *options);
void past_commit(struct fake *f, unsigned job, unsigned seq, int64_t age_s, int64_t stored,
		 bool abandoned);

/* Journal a record of a step, or of one of its checkpoints, without other members. */
void past_word(struct fake *f, unsigned job, const char *type);
void past_word_of(struct fake *f, unsigned job, const char *type, unsigned seq);

#endif
