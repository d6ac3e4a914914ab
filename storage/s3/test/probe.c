/* SPDX-License-Identifier: Apache-2.0
 * The probe of an object store at gpuckptd's start. */
#include "config.h"

#include "storage/s3/s3.h"
#include "storage/s3/test/server.h"

static struct gck_s3_probe found;
static struct gck_error err;

static int probe(const char *url)
{
	memset(&found, 0, sizeof found);
	memset(&err, 0, sizeof err);
	return gck_s3_probe(url, CLUSTER, &found, &err);
}

#define STORE "s3://bucket/pre/fix"

static void test_good(void)
{
	calm();
	is_int(probe(STORE), 0, "a server that knows If-None-Match");
	ok(found.only_new, "is recognised %s", err.text);
	ok(labs(found.skew_s) < 60, "its clock is right (%ld s)", found.skew_s);
	is_int(logged("^DELETE .*/0/0/commit-0.json"), 1, "no object is left");
	write_file("options", "condition=no");
	ok(all_of(probe(STORE) == 0, !found.only_new), "a server that does not %s", err.text);
	write_file("options", "skew=400");
	is_int(probe(STORE), 0, "a clock that is ahead");
	ok(labs(found.skew_s - 400) < 60, "is noticed (%ld s)", found.skew_s);
}

static void test_bad(void)
{
	const char *secret = sign_.keys.secret;

	calm();
	write_file("options", "skew=1000");
	ok(all_of(probe(STORE) < 0, strstr(err.text, "clock")), "%s", err.text);
	calm();
	ok(all_of(probe("s3://nosuchbucket") < 0, strstr(err.text, "bucket")), "%s", err.text);
	sign_.keys.secret = "another";
	ok(all_of(probe(STORE) < 0, strstr(err.text, "S3KeyFile")), "%s", err.text);
	sign_.keys.secret = secret;
	stop_server();
	ok(all_of(probe(STORE) < 0, err.code), "%s", err.text);
}

int main(void)
{
	begin();
	start_server(NULL, NULL);
	test_good();
	test_bad();
	remove_tree(dir_);
	return tap_done();
}
