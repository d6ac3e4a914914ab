/* SPDX-License-Identifier: Apache-2.0
 * Slots for the launcher's variables. */
#include "config.h"

#include "common/base/environ_slots.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/launcher_env.h"

#define SPARE 1024u /* bytes for variables that later starts add */

const char *gck_slots_next(const char *text, size_t size, size_t *at, size_t *capacity)
{
	size_t begin = *at, end;

	while (begin < size && !text[begin])
		begin++;
	end = begin + strnlen(text + begin, size - begin);
	if (end >= size) /* the end, or an entry that is cut off */
		return NULL;
	while (end < size && !text[end])
		end++;
	*at = end;
	if (capacity)
		*capacity = end - begin;
	return text + begin;
}

const char *gck_slots_find(const char *text, size_t size, const char *entry)
{
	size_t name = strcspn(entry, "=") + 1;
	const char *found;

	for (size_t at = 0; (found = gck_slots_next(text, size, &at, NULL));)
		if (!strncmp(found, entry, name))
			return found;
	return NULL;
}

static bool is_launchers(const char *entry)
{
	return strchr(entry, '=') && (gck_launcher_owns(entry) || gck_launcher_default(entry));
}

/* The size of an entry's slot, with reserve for longer numbers, hosts and addresses. */
static size_t slot_of(const char *entry)
{
	size_t n = strlen(entry) + 1;

	return n + n / 4 + 16;
}

size_t gck_slots_capacity(const char *entries, size_t size)
{
	size_t capacity = SPARE;
	const char *entry;

	for (size_t at = 0; (entry = gck_slots_next(entries, size, &at, NULL));)
		if (is_launchers(entry))
			capacity += slot_of(entry);
	return capacity;
}

static int renew(struct gck_slots *s, const char *entries, size_t size)
{
	size_t capacity;
	const char *slot;

	for (size_t at = 0; (slot = gck_slots_next(s->text, s->used, &at, &capacity));) {
		const char *new = gck_slots_find(entries, size, slot);
		size_t n = new ? strlen(new) : 0;

		if (!new || n >= capacity)
			return -1;
		memset(s->text + (slot - s->text), 0, capacity);
		memcpy(s->text + (slot - s->text), new, n);
	}
	return 0;
}

int gck_slots_fill(struct gck_slots *s, const char *entries, size_t size)
{
	size_t before = s->used;
	const char *entry;

	if (renew(s, entries, size))
		return -1;
	for (size_t at = 0; (entry = gck_slots_next(entries, size, &at, NULL));) {
		size_t n = slot_of(entry);

		if (!is_launchers(entry) || gck_slots_find(s->text, before, entry))
			continue;
		if (n > s->capacity - s->used)
			return -1;
		memset(s->text + s->used, 0, n);
		strcpy(s->text + s->used, entry);
		s->used += n;
	}
	return 0;
}
