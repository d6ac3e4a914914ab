/* SPDX-License-Identifier: Apache-2.0
 * Base64 and hexadecimal digits; error.c has UTF-8. */
#include "common/base/encoding.h"

#include <stdlib.h>
#include <string.h>

#include "test/support/tap.h"

/* ---- base64 --------------------------------------------------------------------------------- */

static int there_and_back(void)
{
	unsigned char in[300], out[304];

	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)(i * 37 + 11);
	for (size_t n = 0; n <= sizeof in; n++) {
		char *text = gck_base64_text(in, n);
		long back = text ? gck_base64_bytes(text, strlen(text), out) : -1;

		free(text);
		if (back != (long)n || memcmp(in, out, n))
			return 0;
	}
	return 1;
}

static int is_text(const char *bytes, const char *wanted)
{
	char *text = gck_base64_text(bytes, strlen(bytes));
	int same = text && !strcmp(text, wanted);

	free(text);
	return same;
}

static void test_base64(void)
{
	static const char *const bad[] = {"A", "AA=", "A===", "====", "AB=C", "AA==AAAA", "AA*A",
					  "AA\n="};
	unsigned char out[64];

	ok(there_and_back(), "bytes of every length are decoded again");
	ok(all_of(is_text("fooba", "Zm9vYmE="), is_text("foob", "Zm9vYg==")),
	   "vectors of RFC 4648");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(gck_base64_bytes(bad[i], strlen(bad[i]), out) < 0, "refused: %.2s...", bad[i]);
}

/* ---- hexadecimal digits --------------------------------------------------------------------- */

static void test_bytes(void)
{
	unsigned char in[256], out[256];
	char text[513];
	unsigned good = 0, taken = 0;

	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)i;
	memset(text, 'x', sizeof text);
	gck_hex(in, sizeof in, text);
	ok(all_of(strlen(text) == 512, !strncmp(text, "000102", 6), !strcmp(text + 508, "feff")),
	   "bytes as text");
	ok(all_of(gck_unhex(text, 256, out), !memcmp(in, out, 256)), "and back to bytes");
	ok(all_of(gck_unhex(text, 256, text + 1), !memcmp(in, text + 1, 256)),
	   "also in the place of the text");
	ok(gck_unhex("", 0, out), "an empty text");
	/* As the first and as the second digit of a byte. */
	for (int c = 0; c < 256; c++) {
		char first[] = {(char)c, '0', 0}, second[] = {'0', (char)c, 0};
		bool digit = c && strchr("0123456789abcdef", c);

		good += gck_unhex(first, 1, out) == digit && gck_unhex(second, 1, out) == digit;
		taken += digit;
	}
	ok(all_of(good == 256, taken == 16),
	   "only digits and small letters up to f are accepted");
	ok(all_of(!gck_unhex("00", 2, out), !gck_unhex("000", 2, out)),
	   "a text that is too short is refused");
}

static void test_numbers(void)
{
	uint64_t n = 7;

	ok(all_of(gck_unhex_number("fedcba9876543210", 16, &n), n == 0xfedcba9876543210u),
	   "a number of 16 digits");
	ok(all_of(gck_unhex_number("00a5ff", 4, &n), n == 0xa5),
	   "text behind the digits is ignored");
	ok(all_of(!gck_unhex_number("12", 3, &n), !gck_unhex_number("-1", 2, &n),
		  !gck_unhex_number("0x1", 3, &n), n == 0xa5),
	   "on failure the number is unchanged");
}

int main(void)
{
	test_base64();
	test_bytes();
	test_numbers();
	return tap_done();
}
