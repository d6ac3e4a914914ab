/* SPDX-License-Identifier: Apache-2.0
 * Errors: one struct handed down as the last argument. NULL is allowed; nothing is allocated. */
#ifndef GCK_ERROR_H
#define GCK_ERROR_H

#include <errno.h>
#include <stdarg.h>

/* Marks a function whose result must be used: it reports whether the function succeeded. */
#define GCK_MUST_CHECK __attribute__((warn_unused_result))

struct gck_error {
	int code;       /* an errno value; 0: no failure */
	char text[480]; /* what failed, on which object, why, and what to do; UTF-8, no newline */
};

/* Fill err (if not NULL) with an errno value and a formatted text. Always returns -1, so that a
 * function can fail with `return gck_fail(err, EINVAL, "...")`. */
int gck_fail(struct gck_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int gck_vfail(struct gck_error *err, int code, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* Put "prefix: " in front of the text in err, which a callee has set. Always returns -1. */
int gck_fail_in(struct gck_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
