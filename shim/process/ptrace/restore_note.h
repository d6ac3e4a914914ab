/* SPDX-License-Identifier: Apache-2.0
 * What the user should know of a restart: lines that gck_restore_notes returns. */
#ifndef GCK_RESTORE_NOTE_H
#define GCK_RESTORE_NOTE_H

#include "shim/process/ptrace/rebuild.h"

/* Add a line. -1 without memory. */
int gck_restore_note(struct gck_restore *r, struct gck_error *err, const char *fmt, ...)
	GCK_MUST_CHECK __attribute__((format(printf, 3, 4)));

#endif
