/* SPDX-License-Identifier: Apache-2.0
 * Test Anything Protocol for unit tests: ok(), is_int(), is_str(), then `return tap_done();`.
 * A claim of several conditions is ok(all_of(A, B, ...), NAME): a failure prints the false one.
 * must() is for the steps before a claim. tap_is_long() asks for the long form of a test. */
#ifndef GCK_TAP_H
#define GCK_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count_, tap_failed_;
static const char *tap_false_; /* the text of the condition that ended all_of() */

/* Whether GPUCKPT_LONG is set, and not empty. */
__attribute__((unused)) static bool tap_is_long(void)
{
	const char *long_form = getenv("GPUCKPT_LONG");

	return long_form && *long_form;
}

__attribute__((unused)) static bool tap_note_(bool good, const char *condition)
{
	tap_false_ = good ? NULL : condition;
	return good;
}

/* Up to 12 conditions, evaluated in their order until one is false, as && does. */
#define all_of(...) (TAP_PICK_(__VA_ARGS__, TAP_12_, TAP_11_, TAP_10_, TAP_9_, TAP_8_, TAP_7_, \
			       TAP_6_, TAP_5_, TAP_4_, TAP_3_, TAP_2_, TAP_1_, )(__VA_ARGS__))
#define TAP_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, macro, ...) macro
#define TAP_1_(a) tap_note_(!!(a), #a)
#define TAP_2_(a, ...) (TAP_1_(a) && TAP_1_(__VA_ARGS__))
#define TAP_3_(a, ...) (TAP_1_(a) && TAP_2_(__VA_ARGS__))
#define TAP_4_(a, ...) (TAP_1_(a) && TAP_3_(__VA_ARGS__))
#define TAP_5_(a, ...) (TAP_1_(a) && TAP_4_(__VA_ARGS__))
#define TAP_6_(a, ...) (TAP_1_(a) && TAP_5_(__VA_ARGS__))
#define TAP_7_(a, ...) (TAP_1_(a) && TAP_6_(__VA_ARGS__))
#define TAP_8_(a, ...) (TAP_1_(a) && TAP_7_(__VA_ARGS__))
#define TAP_9_(a, ...) (TAP_1_(a) && TAP_8_(__VA_ARGS__))
#define TAP_10_(a, ...) (TAP_1_(a) && TAP_9_(__VA_ARGS__))
#define TAP_11_(a, ...) (TAP_1_(a) && TAP_10_(__VA_ARGS__))
#define TAP_12_(a, ...) (TAP_1_(a) && TAP_11_(__VA_ARGS__))

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
	if (!good && tap_false_)
		printf("#   false: %s\n", tap_false_);
	tap_false_ = NULL;
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
		printf("#   got \"%s\", wanted \"%s\"\n", got ? got : "(null)",
		       want ? want : "(null)");
	return good;
}

/* A step that prepares a claim: the test ends if it returns a negative number. */
#define must(call) tap_must_((call) >= 0, #call)

__attribute__((unused)) static void tap_must_(bool good, const char *condition)
{
	if (good)
		return;
	printf("Bail out! %s failed\n", condition);
	exit(1);
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
