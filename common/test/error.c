/* SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include "common/test/tap.h"

int main(void)
{
	struct gck_error err = { 0 };
	char text[1000];

	is_int(gck_fail(NULL, EINVAL, "x"), -1, "NULL is allowed");
	is_int(gck_fail_in(NULL, "x"), -1, "NULL is allowed in a prefix");
	is_int(gck_fail(&err, ENOENT, "%s: gone", "a\nb"), -1, "gck_fail returns -1");
	is_int(err.code, ENOENT, "the code is kept");
	is_str(err.text, "a?b: gone", "a newline does not get into a message");
	gck_fail_in(&err, "file %d", 7);
	is_str(err.text, "file 7: a?b: gone", "a prefix");
	gck_fail(&err, 0, "x");
	is_int(err.code, EIO, "a code of 0 is an error all the same");
	memset(text, 'y', sizeof text);
	text[sizeof text - 1] = '\0';
	gck_fail(&err, EIO, "%s", text);
	gck_fail_in(&err, "%s", text);
	is_int((long long)strlen(err.text), sizeof err.text - 1, "a long text is cut");
	return tap_done();
}
