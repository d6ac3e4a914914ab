/* SPDX-License-Identifier: Apache-2.0
 * Answers in XML: the elements that are read, and documents that are refused. */
#include <stdlib.h>

#include "storage/s3/xml.h"
#include "test/support/tap.h"

static int collect(void *arg, const char *path, const char *text, struct gck_error *err)
{
	size_t n = strlen(arg);

	(void)err;
	snprintf((char *)arg + n, 1000 - n, "%s=%s;", path, text);
	return 0;
}

static void is_read(const char *data, const char *want, const char *name)
{
	struct gck_error err = { 0 };
	char found[1000] = "";

	if (gck_xml_read(data, strlen(data), "a", collect, found, &err) < 0)
		snprintf(found, sizeof found, "%s", err.text);
	is_str(found, want, name);
}

static void is_refused(const char *data, size_t size, const char *says, const char *name)
{
	struct gck_error err = { 0 };
	char found[1000] = "";

	ok(all_of(gck_xml_read(data, size, "a", collect, found, &err) < 0, err.code == EPROTO,
		  strstr(err.text, says)), "%s: %s", name, err.text);
}

static int stop(void *arg, const char *path, const char *text, struct gck_error *err)
{
	(void)path;
	(void)text;
	++*(int *)arg;
	return gck_fail(err, ENOSPC, "no more");
}

static void test_stop(void)
{
	static const char data[] = "<a><b/><b/></a>";
	struct gck_error err = { 0 };
	int calls = 0;

	ok(all_of(gck_xml_read(data, strlen(data), "a", stop, &calls, &err) < 0, err.code == ENOSPC,
		  calls == 1), "the callback's failure ends the reading: %s", err.text);
}

static void test_error(void)
{
	static const char full[] =
		"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>not\n"
		"so fast</Message><RequestId>1</RequestId></Error>";
	struct gck_s3_error e;

	ok(gck_xml_error(full, strlen(full), &e), "an error document");
	is_str(e.code, "SlowDown", "its code");
	is_str(e.message, "not so fast", "its message, on one line");
	ok(!gck_xml_error("<a/>", 4, &e), "another document is not an error");
	ok(!gck_xml_error("oops", 4, &e), "nor is a text that is not XML");
	ok(!gck_xml_error(NULL, 0, &e), "nor is no text");
}

int main(void)
{
	char *deep = malloc(4000), *large = malloc(6000);

	is_read("<a xmlns='http://s3/'><b>1 &lt; 2</b><c><b>x</b><d/></c></a>",
		"a/b=1 < 2;a/c/b=x;a/c/d=;a/c=;a=;", "elements with their paths");
	is_read("\n<a><![CDATA[<&]]>\xc3\xa4</a>", "a=<&\xc3\xa4;", "text of several pieces");
	is_read(" \n <?xml version='1.0'?> <a/>", "a=;", "blanks in front of the document");
	is_refused("<a><b></a>", 10, "not XML", "tags that do not match");
	is_refused("<a>", 3, "not XML", "half an answer");
	is_refused("<html><a/></html>", 17, "is <html>, where <a> was asked for",
		   "a proxy's page");
	is_refused("", 0, "not XML", "no answer");
	is_refused("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", 40, "document type", "entities");
	for (int i = 0; i < 1000; i++)
		memcpy(deep + 3 * i, "<a>", 3);
	is_refused(deep, 3000, "too deep", "a deep document");
	memset(large, 'x', 6000);
	memcpy(large, "<a>", 3);
	memcpy(large + 5996, "</a>", 4);
	is_refused(large, 6000, "too long", "a long text");
	test_stop();
	test_error();
	free(deep);
	free(large);
	return tap_done();
}
