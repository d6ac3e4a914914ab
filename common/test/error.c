/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/error.h"

#include "test/support/tap.h"

static void test_encodings(void)
{
	static const struct {
		const char *text, *becomes, *name;
	} all[] = {
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80.", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80.",
		 "UTF-8 is unchanged"},
		{"caf\xe9 au lait", "caf? au lait", "a byte of Latin-1"},
		{"\xa9\xc0\xaf.", "???.", "bytes that do not begin a character"},
		{"\xe0\x80\xaf.", "???.", "an overlong character"},
		{"\xed\xa0\x80.", "???.", "a surrogate"},
		{"\xf4\x90\x80\x80.", "????.", "a character above the last one"},
		{"a\xe2\x82", "a", "a character that is cut"},
	};
	struct gck_error err = {0};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		gck_fail(&err, EIO, "%s", all[i].text);
		is_str(err.text, all[i].becomes, all[i].name);
	}
}

/* Characters of two bytes that begin at even offsets, then at odd ones. */
static void test_cut(void)
{
	struct gck_error err = {0};
	char text[1001];

	for (size_t i = 0; i + 1 < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[sizeof text - 1] = '\0';
	gck_fail(&err, EIO, "%s", text);
	is_int((long long)strlen(err.text), sizeof err.text - 2,
	       "a text is cut between characters");
	gck_fail(&err, EIO, ".%s", text);
	is_int((long long)strlen(err.text), sizeof err.text - 1, "at any offset of the characters");
	gck_fail_in(&err, "x");
	is_int((long long)strlen(err.text), sizeof err.text - 2, "also behind a prefix");
	gck_fail_in(&err, "y");
	is_int((long long)strlen(err.text), sizeof err.text - 1, "also behind two prefixes");
}

int main(void)
{
	struct gck_error err = { 0 };
	char text[1000];

	is_int(gck_fail(NULL, EINVAL, "x"), -1, "NULL is allowed");
	is_int(gck_fail_in(NULL, "x"), -1, "NULL is allowed in a prefix");
	is_int(gck_fail(&err, ENOENT, "%s: gone", "a\nb"), -1, "gck_fail returns -1");
	is_int(err.code, ENOENT, "the code is kept");
	is_str(err.text, "a?b: gone", "a newline is replaced in a message");
	gck_fail_in(&err, "file %d", 7);
	is_str(err.text, "file 7: a?b: gone", "a prefix");
	gck_fail(&err, 0, "x");
	is_int(err.code, EIO, "the code 0 becomes EIO");
	memset(text, 'y', sizeof text);
	text[sizeof text - 1] = '\0';
	gck_fail(&err, EIO, "%s", text);
	gck_fail_in(&err, "%s", text);
	is_int((long long)strlen(err.text), sizeof err.text - 1, "a long text is cut");
	test_encodings();
	test_cut();
	return tap_done();
}
