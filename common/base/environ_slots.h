/* SPDX-License-Identifier: Apache-2.0
 * The launcher's variables of one start of a rank, as they lie in a restored process: each
 * "NAME=value" begins a slot that is filled up with NULs. The values of the next start are written
 * into the slots of the same names. So pointers that the program holds stay valid, and the memory
 * does not grow from restart to restart. */
#ifndef GCK_ENVIRON_SLOTS_H
#define GCK_ENVIRON_SLOTS_H

#include <stddef.h>

#include "common/base/error.h"

struct gck_slots {
	char *text;            /* capacity bytes; slots fill the first `used` */
	size_t used, capacity;
};

/* Return the first entry at or after *at, and move *at to the next one; NULL: there is no entry.
 * capacity (may be NULL): bytes of its slot, with the NUL. Reads any text whose entries end with
 * NULs, such as /proc/PID/environ. */
const char *gck_slots_next(const char *text, size_t size, size_t *at, size_t *capacity);

/* Find the entry in `text` with the same name as this entry; NULL: there is none. */
const char *gck_slots_find(const char *text, size_t size, const char *entry);

/* The bytes that slots for the launcher's variables among these entries need, with reserve for
 * variables that later starts add. */
size_t gck_slots_capacity(const char *entries, size_t size);

/* Write the launcher's variables of another start into the slots. -1: a variable that has a slot is
 * missing or too long, or no slot is left for a new one; the text is then unusable. */
GCK_MUST_CHECK int gck_slots_fill(struct gck_slots *s, const char *entries, size_t size);

#endif
