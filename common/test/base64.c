/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/encoding.h"

#include <stdlib.h>
#include <string.h>

#include "test/support/tap.h"

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

int main(void)
{
	static const char *const bad[] = {"A", "AA=", "A===", "====", "AB=C", "AA==AAAA", "AA*A",
					  "AA\n="};
	unsigned char out[64];

	ok(there_and_back(), "bytes of every length are decoded again");
	ok(all_of(is_text("fooba", "Zm9vYmE="), is_text("foob", "Zm9vYg==")),
	   "vectors of RFC 4648");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(gck_base64_bytes(bad[i], strlen(bad[i]), out) < 0, "refused: %.2s...", bad[i]);
	return tap_done();
}
