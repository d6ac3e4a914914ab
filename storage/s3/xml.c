/* SPDX-License-Identifier: Apache-2.0
 * Reading the XML of answers with expat. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <expat.h>

#include "storage/s3/xml.h"

#define PATH_SIZE 256
#define TEXT_SIZE 4096 /* a key has at most 1024 bytes */

struct reading {
	XML_Parser parser;
	const char *root;
	gck_xml_fn *fn;
	void *arg;
	struct gck_error *err;
	char path[PATH_SIZE], text[TEXT_SIZE];
	size_t path_size, text_size;
	bool failed;
};

static void stop(struct reading *r)
{
	r->failed = true;
	XML_StopParser(r->parser, XML_FALSE);
}

static void refuse(struct reading *r, const char *why)
{
	gck_fail(r->err, EPROTO, "the answer's XML %s", why);
	stop(r);
}

static void refuse_root(struct reading *r, const char *name)
{
	gck_fail(r->err, EPROTO,
		 "the answer is <%.60s>, where <%s> was asked for: is S3Endpoint an S3 server's?",
		 name, r->root);
	stop(r);
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
	struct reading *r = arg;
	size_t left = sizeof r->path - r->path_size;
	int n = snprintf(r->path + r->path_size, left, "%s%s", r->path_size ? "/" : "", name);

	(void)attributes;
	r->text_size = 0;
	if (n < 0 || (size_t)n >= left)
		refuse(r, "is too deep");
	else if (!r->path_size && strcmp(name, r->root))
		refuse_root(r, name);
	else
		r->path_size += (size_t)n;
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
	struct reading *r = arg;
	size_t n = strlen(name);

	if (r->failed)
		return;
	r->text[r->text_size] = '\0';
	if (r->fn && r->fn(r->arg, r->path, r->text, r->err) < 0)
		stop(r);
	r->path_size -= n < r->path_size ? n + 1 : n;
	r->path[r->path_size] = '\0';
	r->text_size = 0;
}

static void XMLCALL on_text(void *arg, const XML_Char *text, int size)
{
	struct reading *r = arg;

	if (r->failed)
		return;
	if ((size_t)size >= sizeof r->text - r->text_size) {
		refuse(r, "has too long a text");
		return;
	}
	memcpy(r->text + r->text_size, text, (size_t)size);
	r->text_size += (size_t)size;
}

static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *sys,
			       const XML_Char *pub, int internal)
{
	(void)name;
	(void)sys;
	(void)pub;
	(void)internal;
	refuse(arg, "has a document type");
}

int gck_xml_read(const char *data, size_t size, const char *root, gck_xml_fn *fn, void *arg,
		 struct gck_error *err)
{
	struct reading r = { .parser = XML_ParserCreate(NULL), .root = root, .fn = fn, .arg = arg,
			     .err = err };
	bool good;

	if (!r.parser)
		return gck_fail(err, ENOMEM, "no memory to read an answer");
	/* A slow server may send blanks first to keep the connection alive. */
	while (size > 0 && strchr(" \t\r\n", *data))
		data++, size--;
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, on_start, on_end);
	XML_SetCharacterDataHandler(r.parser, on_text);
	XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
	good = XML_Parse(r.parser, data ? data : "", (int)size, XML_TRUE) == XML_STATUS_OK;
	if (!good && !r.failed)
		gck_fail(err, EPROTO, "the answer is not XML: %s",
			 XML_ErrorString(XML_GetErrorCode(r.parser)));
	XML_ParserFree(r.parser);
	return good && !r.failed ? 0 : -1;
}

static int on_error(void *arg, const char *path, const char *text, struct gck_error *err)
{
	struct gck_s3_error *e = arg;

	(void)err;
	if (!strcmp(path, "Error/Code"))
		snprintf(e->code, sizeof e->code, "%.*s", (int)sizeof e->code - 1, text);
	else if (!strcmp(path, "Error/Message"))
		snprintf(e->message, sizeof e->message, "%.*s", (int)sizeof e->message - 1, text);
	return 0;
}

bool gck_xml_error(const char *data, size_t size, struct gck_s3_error *e)
{
	*e = (struct gck_s3_error){ "", "" };
	if (data)
		(void)!gck_xml_read(data, size, "Error", on_error, e, NULL); /* no code: false */
	for (char *c = e->message; *c; c++)
		if ((unsigned char)*c < 0x20)
			*c = ' ';
	return *e->code;
}
