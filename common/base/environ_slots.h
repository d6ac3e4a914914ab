/* SPDX-License-Identifier: Apache-2.0
 * The launcher's variables of one start of a rank, as they lie in a restored process:
 * "NAME=value" each at the beginning of a slot of its own, NULs to the slot's end. The next
 * start's values are written into the slots of the same names: pointers that the program holds
 * stay good, and a lineage of restarts does not grow. */
#ifndef GCK_ENVIRON_SLOTS_H
#define GCK_ENVIRON_SLOTS_H

#include <stddef.h>

struct gck_slots {
	char *text;        /* room bytes; those from `used` on are none yet */
	size_t used, room;
};

/* The first entry at or behind *at, which goes to the next one; NULL: there is none. capacity:
 * bytes of its slot, with the NUL (may be NULL). Works for any text of entries that end with
 * NUL, as /proc/PID/environ has them. */
const char *gck_slots_next(const char *text, size_t size, size_t *at, size_t *capacity);

/* The entry among `text`'s that has this one's name; NULL: none. */
const char *gck_slots_find(const char *text, size_t size, const char *entry);

/* Room for the launcher's variables among these entries, and for some to come. */
size_t gck_slots_capacity(const char *entries, size_t size);

/* Put the launcher's variables of another start in: -1 if one that has a slot is not among them, or
 * has outgrown it, or if a new one finds no room; text is spoilt then. */
int gck_slots_fill(struct gck_slots *s, const char *entries, size_t size);

#endif
