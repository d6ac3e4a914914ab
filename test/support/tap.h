/* SPDX-License-Identifier: Apache-2.0
 * Test Anything Protocol for unit tests: ok(), is_int(), is_str(), then `return tap_done();`. */
#ifndef GCK_TAP_H
#define GCK_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count_, tap_failed_;

__attribute__((format(printf, 2, 3), unused)) static bool ok(bool good, const char *fmt, ...)
{
	va_list ap;

	tap_count_++;
	tap_failed_ += !good;
	printf("%sok %d - ", good ? "" : "not ", tap_count_);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return good;
}

__attribute__((unused)) static bool is_int(long long got, long long want, const char *name)
{
	bool good = ok(got == want, "%s", name);

	if (!good)
		printf("#   got %lld, wanted %lld\n", got, want);
	return good;
}

__attribute__((unused)) static bool is_str(const char *got, const char *want, const char *name)
{
	bool good = ok(got && want ? !strcmp(got, want) : got == want, "%s", name);

	if (!good)
		printf("#   got \"%s\", wanted \"%s\"\n", got ? got : "(null)", want ? want : "(null)");
	return good;
}

__attribute__((unused)) static void skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count_, name, why);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count_);
	return tap_failed_ != 0;
}

#endif
