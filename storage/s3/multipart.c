/* SPDX-License-Identifier: Apache-2.0
 * Writing a large document in parts, several at once. Each part is retried by itself. The document
 * appears under its name with the last request. If the process dies before, the next prune aborts
 * the upload. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/base/parallel.h"
#include "storage/s3/request.h"
#include "storage/s3/s3.h"

#define THREADS 4
#define ID_SIZE 1025

struct parts {
	struct gck_s3_store *s;
	const char *name;
	const char *data;
	size_t size;
	char id[ID_SIZE];
	char (*etags)[128];
	unsigned n;
};

static int on_created(void *arg, const char *path, const char *text, struct gck_error *err)
{
	struct parts *p = arg;

	(void)err;
	if (!strcmp(path, "InitiateMultipartUploadResult/UploadId"))
		snprintf(p->id, sizeof p->id, "%.1024s", text);
	return 0;
}

static int create(struct parts *p, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_CREATE_MULTIPART, p->name } };
	int rc;

	if (gck_s3_call(p->s, &c, err) < 0)
		return -1;
	rc = gck_xml_read(c.http.text, c.http.size, c.root, on_created, p, err);
	gck_s3_end(&c);
	if (rc == 0 && !*p->id)
		rc = gck_fail(err, EPROTO, "the answer has no UploadId");
	return rc < 0 ? gck_s3_fail_in(p->s, &c.sign, err) : 0;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static int put_part(void *arg, size_t i, struct gck_error *err)
{
	struct parts *p = arg;
	size_t start = i * GCK_S3_PART, left = p->size - start;
	struct gck_s3_call c = {
		.sign = { GCK_SIGN_PART, p->name, .upload = p->id, .part = (unsigned)i + 1 },
		.body = p->data + start,
		.size = left < GCK_S3_PART ? left : GCK_S3_PART,
	};
	char *md5 = gck_checksum_md5(c.body, c.size);
	int rc;

	c.sign.md5 = md5;
	rc = gck_s3_call(p->s, &c, err);
	free(md5);
	if (rc < 0)
		return gck_fail_in(err, "part %zu of %u", i + 1, p->n);
	snprintf(p->etags[i], sizeof p->etags[i], "%s", c.http.etag);
	gck_s3_end(&c);
	return 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static char *completion(const struct parts *p, size_t *size)
{
	char *text;
	FILE *out = open_memstream(&text, size);

	if (!out)
		return NULL;
	fputs("<CompleteMultipartUpload>", out);
	for (unsigned i = 0; i < p->n; i++) {
		fprintf(out, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
		for (const char *c = p->etags[i]; *c; c++)
			if (*c == '&' || *c == '<')
				fprintf(out, "&#%d;", *c);
			else
				putc(*c, out);
		fputs("</ETag></Part>", out);
	}
	fputs("</CompleteMultipartUpload>", out);
	return fclose(out) == 0 ? text : NULL;
}

/* A missing upload may have been completed by an attempt whose answer was lost. */
static bool was_completed(struct parts *p, const struct gck_error *why)
{
	uint64_t size;

	return why->code == ENOENT && gck_s3_size(&p->s->head, p->name, &size, NULL) == 0 &&
	       size == p->size;
}

static int complete(struct parts *p, struct gck_error *err)
{
	struct gck_s3_call c = {
		.sign = { GCK_SIGN_COMPLETE_MULTIPART, p->name, .upload = p->id },
	};
	struct gck_error why;
	char *body = completion(p, &c.size);
	int rc;

	if (!body)
		return gck_fail(err, ENOMEM, "no memory to complete %s", p->name);
	c.body = body;
	rc = gck_s3_call(p->s, &c, &why);
	free(body);
	if (rc == 0)
		gck_s3_end(&c);
	else if (was_completed(p, &why))
		rc = 0;
	else if (err)
		*err = why;
	return rc;
}

static void abort_parts(struct parts *p)
{
	const struct gck_sign_request abort = {GCK_SIGN_ABORT_MULTIPART, p->name, .upload = p->id};

	(void)!gck_s3_remove(p->s, &abort, NULL); /* the next prune tries again */
}

int gck_s3_put_parts(struct gck_s3_store *s, const char *name, const void *data, size_t size,
		     struct gck_error *err)
{
	struct parts p = { .s = s, .name = name, .data = data, .size = size,
			   .n = (unsigned)((size + GCK_S3_PART - 1) / GCK_S3_PART) };
	int rc = -1;

	p.etags = calloc(p.n, sizeof *p.etags);
	if (!p.etags)
		return gck_fail(err, ENOMEM, "no memory to send %s", name);
	if (create(&p, err) == 0) {
		rc = gck_parallel(THREADS, p.n, put_part, &p, err);
		if (rc == 0)
			rc = complete(&p, err);
		if (rc < 0)
			abort_parts(&p);
	}
	free(p.etags);
	return rc;
}
