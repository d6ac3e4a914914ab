/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/error.h"

#include <stdio.h>
#include <string.h>

#include "common/base/encoding.h"

/* Make the text one line of valid UTF-8. Text quoted from outside must not begin a new line in a
 * log, and truncation may have split a character, which JSON refuses. */
static void one_line(char *text)
{
	gck_utf8_sanitize(text);
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

int gck_vfail(struct gck_error *err, int code, const char *fmt, va_list ap)
{
	if (!err)
		return -1;
	err->code = code ? code : EIO;
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	one_line(err->text);
	return -1;
}

int gck_fail(struct gck_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	gck_vfail(err, code, fmt, ap);
	va_end(ap);
	return -1;
}

int gck_fail_in(struct gck_error *err, const char *fmt, ...)
{
	char prefix[sizeof err->text];
	char text[2 * sizeof err->text + 3];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(prefix, sizeof prefix, fmt, ap);
	va_end(ap);
	snprintf(text, sizeof text, "%s: %s", prefix, err->text);
	memcpy(err->text, text, sizeof err->text);
	err->text[sizeof err->text - 1] = '\0';
	one_line(err->text);
	return -1;
}
