/* SPDX-License-Identifier: Apache-2.0
 * What the checks report. */
#include "coordinator/cli/check/check.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 4, 0)))
static void add(struct checks *c, const char *state, const char *remedy, const char *fmt,
		va_list ap)
{
	char text[sizeof ((struct gck_error *)0)->text];
	json_t *f;

	vsnprintf(text, sizeof text, fmt, ap);
	f = json_pack("{s:s, s:s, s:s, s:s}", "node", c->node, "check", c->name, "state", state,
		      "text", text);
	if (remedy)
		json_object_set_new(f, "remedy", json_string(remedy));
	json_array_append_new(c->findings, f);
}

void check_ok(struct checks *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "ok", NULL, fmt, ap);
	va_end(ap);
}

void check_warn(struct checks *c, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "warning", remedy, fmt, ap);
	va_end(ap);
}

void check_error(struct checks *c, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, "error", remedy, fmt, ap);
	va_end(ap);
}
