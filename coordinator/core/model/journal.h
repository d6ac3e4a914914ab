/* SPDX-License-Identifier: Apache-2.0
 * The journal: a file of records, one a line, each behind the XXH3-64 of its text:
 *
 *   90a35b1c8e2f7d64 {"t":"intent","job":12,...}
 *
 * A record is on the disk before what it says is done. After a crash the records are read back. The
 * last line may be torn; damage anywhere else is refused: what follows it cannot be believed. */
#ifndef GCK_JOURNAL_H
#define GCK_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"

struct gck_journal;

/* Take a record that is read back; -1 stops the reading. */
typedef int gck_journal_fn(void *arg, const json_t *record, struct gck_error *err);

/* Open <dir>/journal, made if it is not there, and read it back. A torn last line is cut off and
 * told by *torn. Failures name the file, the line and the remedy. */
struct gck_journal *gck_journal_open(const char *dir, gck_journal_fn *take, void *arg, bool *torn,
				     struct gck_error *err) GCK_MUST_CHECK;
void gck_journal_close(struct gck_journal *j);

/* Append a record; sync: return only when it is on the disk. What could not be written whole is
 * taken back; after a failed sync nothing more is taken, for nobody knows what is on the disk. */
int gck_journal_append(struct gck_journal *j, const json_t *record, bool sync,
		       struct gck_error *err) GCK_MUST_CHECK;

/* Put these records in place of all others, in one step; one that had failed is whole again. */
int gck_journal_rewrite(struct gck_journal *j, const json_t *records, struct gck_error *err)
	GCK_MUST_CHECK;

/* It has grown so much since the last rewrite that another is due. */
bool gck_journal_is_long(const struct gck_journal *j);

/* Lock <dir>/lock for the life of the process: 0, or -1 naming the process that has it. */
int gck_journal_lock(const char *dir, struct gck_error *err) GCK_MUST_CHECK;

#endif
