/* SPDX-License-Identifier: Apache-2.0
 * The fake world's journal: the real one's bytes, in memory, and read back by the real one; and
 * what becomes of them while no coordinator runs. */
#ifndef GCK_TEST_FAKE_JOURNAL_H
#define GCK_TEST_FAKE_JOURNAL_H

#include "coordinator/core/test/fake_world.h"

/* What a start does: read it back into the core's state, take the next epoch, write it anew.
 * current: what the file's times tell (test/journal.c); those here are not the world's. */
void fake_journal_start(struct fake *f, bool current);

void fake_journal_end(struct fake *f);

/* What the core calls. */
int fake_journal_append(struct gck_core *core, const json_t *record, bool sync,
			struct gck_error *err);
int fake_journal_rewrite(struct gck_core *core, struct gck_error *err);

/* Keep a copy of it; while no coordinator runs: put that back, if there is one; remove it; or lose
 * what was not on the disk. */
void fake_journal_copy(struct fake *f);
void fake_journal_put_back(struct fake *f);
void fake_journal_remove(struct fake *f);
void fake_journal_lose_tail(struct fake *f);

#endif
