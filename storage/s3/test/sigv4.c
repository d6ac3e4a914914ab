/* SPDX-License-Identifier: Apache-2.0
 * Signatures compared with those that AWS has published: the example of a presigned URL in the S3
 * API reference ("Authenticating Requests: Using Query Parameters"), and cases of the Signature
 * Version 4 test suite in their presigned form. presign.t has the requests. */
#include <stdlib.h>

#include "storage/s3/sigv4.h"
#include "test/support/tap.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define TIME 1440938160 /* 2015-08-30T12:36:00Z */

static const struct gck_sigv4_keys suite_keys = {
	.access = "AKIDEXAMPLE",
	.secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
};
static const struct gck_sigv4_keys doc_keys = {
	.access = "AKIAIOSFODNN7EXAMPLE",
	.secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};

static const char *signature_in(const char *url)
{
	const char *s = strstr(url, "X-Amz-Signature=");

	return s ? s + strlen("X-Amz-Signature=") : NULL;
}

/* ---- published vectors --------------------------------------------------------------------- */

#define ALL "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct vector {
	const char *name, *path;
	struct gck_sigv4_pair query[GCK_SIGV4_PAIRS], headers[GCK_SIGV4_PAIRS];
	const char *signature;
} vectors[] = {
	{"get-vanilla-empty-query-key",
	 "/",
	 {{"Param1", "value1"}},
	 {{NULL}},
	 "49096700cbbaa5753443850f40df10f904fc2fdb544dc9512203cc77c471a9de"},
	{"get-vanilla-query-order-key-case",
	 "/",
	 {{"Param2", "value2"}, {"Param1", "value1"}},
	 {{NULL}},
	 "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5"},
	{"get-vanilla-query-unreserved",
	 "/",
	 {{ALL, ALL}},
	 {{NULL}},
	 "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf"},
	{"get-unreserved",
	 "/" ALL,
	 {{NULL}},
	 {{NULL}},
	 "95968482db1b9e0fadef6efc1bd24689f77c77d9ef56919c96a28cc92e0d6005"},
	{"get-space-normalized",
	 "/example space/",
	 {{NULL}},
	 {{NULL}},
	 "7a1f416954786484c9824d93c1f26ef64acb9b1b6c9154d08c9f07d0e394abf6"},
	{"get-utf8",
	 "/\xe1\x88\xb4",
	 {{NULL}},
	 {{NULL}},
	 "10eae3f14a260bd3911cc6d008d3c576d143b05b62f09782a7a4b37f52178e44"},
	{"get-slashes-unnormalized",
	 "//example//",
	 {{NULL}},
	 {{NULL}},
	 "822a5a9ba28072c5ab2bb4a6307d0c88276d40e49fec6b724c03fb4d4ba60fc2"},
	{"get-header-value-trim",
	 "/",
	 {{NULL}},
	 {{"my-header2", " \"a   b   c\""}, {"my-header1", " value1"}},
	 "e7bb0fd515e125e1aec2ecc4c0c17484fb06f6846b927c35e46005dd3df3acd4"},
};

static void suite(const struct vector *v)
{
	struct gck_sigv4_request r = {
		.method = "GET", .scheme = "https", .host = "example.amazonaws.com",
		.path = v->path, .payload = EMPTY, .region = "us-east-1", .service = "service",
		.now = TIME, .seconds = 3600,
	};
	struct gck_error err = { 0 };
	char *url = NULL;

	memcpy(r.query, v->query, sizeof v->query);
	memcpy(r.headers, v->headers, sizeof v->headers);
	must(gck_sigv4_presign(&suite_keys, &r, &url, &err));
	is_str(url ? signature_in(url) : err.text, v->signature, v->name);
	free(url);
}

static void document(void)
{
	struct gck_sigv4_request r = {
		.method = "GET", .scheme = "https", .host = "examplebucket.s3.amazonaws.com",
		.path = "/test.txt", .region = "us-east-1", .service = "s3", .now = 1369353600,
		.seconds = 86400,
	};
	char *url = NULL;

	must(gck_sigv4_presign(&doc_keys, &r, &url, NULL));
	is_str(url,
	       "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
	       "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
	       "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
	       "&X-Amz-Signature="
	       "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
	       "the presigned URL of the S3 API reference");
	free(url);
	r.seconds = 7 * 24 * 3600 + 1;
	ok(gck_sigv4_presign(&doc_keys, &r, &url, NULL) < 0,
	   "a lifetime of more than a week is refused");
}

int main(void)
{
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
		suite(&vectors[i]);
	document();
	return tap_done();
}
