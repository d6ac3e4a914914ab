/* SPDX-License-Identifier: Apache-2.0
 * Obstacles to a checkpoint: the list, and the first refusal as an error, one that stays if any
 * does. */
#include "shim/process/image/obstacles.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Replace bytes that JSON refuses: the kernel takes any bytes as a name, JSON only text. */
static void ascii(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* The item of a descriptor that is named already, or NULL. */
static json_t *find_descriptor(const struct gck_obstacles *f, const char *name)
{
	size_t i;
	json_t *item;

	if (strncmp(name, "fd ", 3))
		return NULL;
	json_array_foreach(f->items, i, item) {
		if (!strcmp(json_string_value(json_object_get(item, "object")), name))
			return item;
	}
	return NULL;
}

/* "first; second", or "first" if they are the same. */
static void join(json_t *item, const char *key, const char *second)
{
	const char *first = json_string_value(json_object_get(item, key));

	if (strcmp(first, second))
		json_object_set_new(item, key, json_sprintf("%s; %s", first, second));
}

/* A descriptor is named once, with all that refuses it, or else with all notes. */
static void add_item(const struct gck_obstacles *f, bool refuse, const char *name,
		     const char *reason, const char *remedy)
{
	json_t *item = find_descriptor(f, name);

	if (item && refuse == json_is_true(json_object_get(item, "refuse"))) {
		join(item, "reason", reason);
		join(item, "remedy", remedy);
	} else if (item && refuse) {
		json_object_set_new(item, "reason", json_string(reason));
		json_object_set_new(item, "remedy", json_string(remedy));
		json_object_set_new(item, "refuse", json_true());
	} else if (!item) {
		json_array_append_new(f->items, json_pack("{s:s, s:s, s:s, s:b}", "object", name,
							  "reason", reason, "remedy", remedy,
							  "refuse", refuse));
	}
}

/* code: of the error; 0: it refuses nothing. */
__attribute__((format(printf, 5, 0)))
static void add(struct gck_obstacles *f, int code, const char *object, const char *remedy,
		const char *fmt, va_list ap)
{
	char reason[320], name[PATH_MAX + 64];

	vsnprintf(reason, sizeof(reason), fmt, ap);
	snprintf(name, sizeof(name), "%s", object);
	if (f->items) {
		ascii(name);
		ascii(reason);
		add_item(f, code != 0, name, reason, remedy);
	}
	if (code && (!f->refused || (f->passing && code != EAGAIN))) {
		f->refused = true;
		f->passing = code == EAGAIN;
		gck_fail(f->err, code, "%s: %s; %s", object, reason, remedy);
	}
}

void gck_obstacle_add(struct gck_obstacles *f, bool refuse, const char *object, const char *remedy,
	      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, refuse ? ENOTSUP : 0, object, remedy, fmt, ap);
	va_end(ap);
}

void gck_obstacle_add_passing(struct gck_obstacles *f, const char *object, const char *remedy,
			      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(f, EAGAIN, object, remedy, fmt, ap);
	va_end(ap);
}
