/* SPDX-License-Identifier: Apache-2.0
 * Obstacles to a checkpoint: the list, and the first refusal as an error. */
#include "shim/process/image/obstacles.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* Replace bytes that JSON refuses: the kernel takes any bytes as a name, JSON only text. */
static void ascii(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
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
		json_array_append_new(f->items, json_pack("{s:s, s:s, s:s, s:b}", "object", name,
							  "reason", reason, "remedy", remedy,
							  "refuse", code != 0));
	}
	if (code && !f->refused) {
		f->refused = true;
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
