/* SPDX-License-Identifier: Apache-2.0
 * The journal: a file of records, one a line, each behind the XXH3-64 of its text:
 *
 *   90a35b1c8e2f7d64 {"t":"intent","job":12,...,"at_ms":1795601702123}
 *
 * A record is on the disk before its action begins. After a crash the records are read back. The
 * last line may be torn. Damage elsewhere is an error, since later records cannot be trusted. */
#ifndef GCK_JOURNAL_H
#define GCK_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"

struct gck_journal;

/* Called for each record that is read back; -1 stops the reading. */
typedef int gck_journal_fn(void *arg, const json_t *record, struct gck_error *err);

/* Open <dir>/journal, which is made if it is missing, and read it back. *torn: a torn last line was
 * cut off. Errors name the file, the line and the remedy. */
struct gck_journal *gck_journal_open(const char *dir, gck_journal_fn *take, void *arg, bool *torn,
				     struct gck_error *err) GCK_MUST_CHECK;
void gck_journal_close(struct gck_journal *j);

/* Append a record; with sync it is on the disk on return. A partly written record is removed again.
 * After a failed sync every append fails, since the state of the disk is unknown. */
int gck_journal_append(struct gck_journal *j, const json_t *record, bool sync,
		       struct gck_error *err) GCK_MUST_CHECK;

/* Replace all records by these, atomically. A journal that had failed works again. */
int gck_journal_rewrite(struct gck_journal *j, const json_t *records, struct gck_error *err)
	GCK_MUST_CHECK;

/* The line of a record, with its newline; to be freed. NULL without memory. */
char *gck_journal_line(const json_t *record, size_t *size);

/* Was it, when it was opened, as a coordinator had left it? Nobody can set the time of a file's
 * last change (st_ctim): that of a copy which was put back is later than the stamp of its last
 * line. False also for an empty journal. */
bool gck_journal_was_current(const struct gck_journal *j);

/* Has the journal grown so much since the last rewrite that it must be rewritten? */
bool gck_journal_is_long(const struct gck_journal *j);

/* Lock <dir>/lock for the life of the process. -1: err names the process that has the lock. */
int gck_journal_lock(const char *dir, struct gck_error *err) GCK_MUST_CHECK;

#endif
