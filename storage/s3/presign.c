/* SPDX-License-Identifier: Apache-2.0
 * Presigned URLs: each verb as an HTTP request. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/s3_url.h"
#include "storage/s3/presign.h"

#define PART_MAX 10000

static const char *const methods[] = {
	[GCK_SIGN_PUT] = "PUT",
	[GCK_SIGN_GET] = "GET",
	[GCK_SIGN_HEAD] = "HEAD",
	[GCK_SIGN_DELETE] = "DELETE",
	[GCK_SIGN_LIST] = "GET",
	[GCK_SIGN_CREATE_MULTIPART] = "POST",
	[GCK_SIGN_PART] = "PUT",
	[GCK_SIGN_COMPLETE_MULTIPART] = "POST",
	[GCK_SIGN_ABORT_MULTIPART] = "DELETE",
	[GCK_SIGN_LIST_MULTIPARTS] = "GET",
	[GCK_SIGN_WALK] = "GET",
};

const char *gck_s3_method(enum gck_sign_verb verb)
{
	return methods[verb];
}

struct target {
	struct gck_sigv4_request http;
	struct gck_sigv4_pair *query, *header; /* the next free entries */
	char host[300], part[8];
	char *key, *path;
};

static void query(struct target *t, const char *name, const char *value)
{
	*t->query++ = (struct gck_sigv4_pair){ name, value };
}

static void header(struct target *t, const char *name, const char *value)
{
	*t->header++ = (struct gck_sigv4_pair){ name, value };
}

static int need_upload(struct target *t, const struct gck_sign_request *r, struct gck_error *err)
{
	if (!r->upload || !*r->upload)
		return gck_fail(err, EINVAL, "%s of %s needs the upload's id",
				gck_sign_verb_name(r->verb), r->name);
	query(t, "uploadId", r->upload);
	if (r->verb != GCK_SIGN_PART)
		return 0;
	if (r->part < 1 || r->part > PART_MAX)
		return gck_fail(err, EINVAL, "%s has no part %u: parts are 1 to %d", r->name,
				r->part, PART_MAX);
	snprintf(t->part, sizeof t->part, "%u", r->part);
	query(t, "partNumber", t->part);
	return 0;
}

static int add_queries(struct target *t, const struct gck_sign_request *r, struct gck_error *err)
{
	switch (r->verb) {
	case GCK_SIGN_LIST:
	case GCK_SIGN_WALK:
		query(t, "list-type", "2");
		query(t, "delimiter", "/");
		query(t, "prefix", t->key);
		if (r->token)
			query(t, "continuation-token", r->token);
		return 0;
	case GCK_SIGN_LIST_MULTIPARTS:
		query(t, "uploads", "");
		query(t, "prefix", t->key);
		return 0;
	case GCK_SIGN_CREATE_MULTIPART:
		query(t, "uploads", "");
		return 0;
	case GCK_SIGN_PART:
	case GCK_SIGN_COMPLETE_MULTIPART:
	case GCK_SIGN_ABORT_MULTIPART:
		return need_upload(t, r, err);
	default:
		return 0;
	}
}

static void add_headers(struct target *t, const struct gck_sign_request *r)
{
	if (r->verb == GCK_SIGN_PUT || r->verb == GCK_SIGN_PART) {
		if (r->md5)
			header(t, "content-md5", r->md5);
		if (r->crc32c)
			header(t, "x-amz-checksum-crc32c", r->crc32c);
	}
	if (r->only_new && (r->verb == GCK_SIGN_PUT || r->verb == GCK_SIGN_COMPLETE_MULTIPART))
		header(t, "if-none-match", "*");
}

/* Host and path of the key, or of the bucket for a list. */
static int address(struct target *t, const struct gck_s3_server *server, const char *bucket,
		   const char *key, struct gck_error *err)
{
	const char *host = strstr(server->endpoint, "://") + 3;
	int n = server->virtual_host ? asprintf(&t->path, "/%s", key) :
				       asprintf(&t->path, "/%s%s%s", bucket, *key ? "/" : "", key);

	if (n < 0) {
		t->path = NULL;
		return gck_fail(err, ENOMEM, "no memory to sign a request");
	}
	if (snprintf(t->host, sizeof t->host, "%s%s%s", server->virtual_host ? bucket : "",
		     server->virtual_host ? "." : "", host) >= (int)sizeof t->host)
		return gck_fail(err, EINVAL, "%.100s: the host's name is too long",
				server->endpoint);
	t->http.scheme = !strncmp(server->endpoint, "https:", 6) ? "https" : "http";
	t->http.host = t->host;
	t->http.path = t->path;
	return 0;
}

static int fill(struct target *t, const struct gck_s3_server *server,
		const struct gck_sign_scope *of, const struct gck_sign_request *r,
		struct gck_error *err)
{
	bool walks = r->verb == GCK_SIGN_WALK;
	bool on_bucket = walks || r->verb == GCK_SIGN_LIST || r->verb == GCK_SIGN_LIST_MULTIPARTS;
	char bucket[GCK_S3_BUCKET_MAX];
	const char *prefix;
	uint32_t seq;

	if (gck_s3_name_check(r->verb, r->name, &seq, err) < 0 ||
	    gck_s3_endpoint_check(server->endpoint, err) < 0 ||
	    gck_s3_url_parse(of->url, bucket, &prefix, err) < 0 ||
	    (walks ? gck_s3_key_above : gck_s3_key)(of, r->name, &t->key, err) < 0)
		return -1;
	t->query = t->http.query;
	t->header = t->http.headers;
	add_headers(t, r);
	if (add_queries(t, r, err) < 0)
		return -1;
	return address(t, server, bucket, on_bucket ? "" : t->key, err);
}

int gck_s3_presign(const struct gck_s3_server *server, const struct gck_sigv4_keys *keys,
		   const struct gck_sign_scope *of, const struct gck_sign_request *r, time_t now,
		   unsigned seconds, char **url, struct gck_error *err)
{
	struct target t = { .http = { .method = methods[r->verb], .region = server->region,
				      .service = "s3", .now = now, .seconds = seconds } };
	int rc = fill(&t, server, of, r, err);

	if (rc == 0)
		rc = gck_sigv4_presign(keys, &t.http, url, err);
	free(t.key);
	free(t.path);
	return rc;
}
