/* SPDX-License-Identifier: Apache-2.0
 * What the user should know of a restart. */
#include "config.h"

#include "shim/process/ptrace/restore_note.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int gck_restore_note(struct gck_restore *r, struct gck_error *err, const char *fmt, ...)
{
	char **slot;
	va_list ap;
	int n;

	r = r->root;
	slot = gck_grow(&r->notes, &r->nnotes, sizeof *slot, err);
	if (!slot)
		return -1;
	va_start(ap, fmt);
	n = vasprintf(slot, fmt, ap);
	va_end(ap);
	if (n >= 0)
		return 0;
	r->nnotes--;
	return gck_fail(err, ENOMEM, "no memory for a note to the user");
}
