/* SPDX-License-Identifier: Apache-2.0
 * The URL of each verb; hosts and paths from buckets, prefixes and unusual names; requests that are
 * not signed. sigv4.t tests the signatures. */
#include <stdlib.h>

#include "storage/s3/presign.h"
#include "test/support/tap.h"

#define HASH "0123456789abcdef0123456789abcdef"
#define NOW 1369353600

static const struct gck_sigv4_keys keys = { .access = "AK", .secret = "secret" };
static const struct gck_s3_server path_style = { "https://h.example:8443", "eu-1", false };
static const struct gck_s3_server virtual_style = { "https://h.example", "eu-1", true };
static const struct gck_sign_scope scope = { "s3://bucket/pre/fix", "big", 77, 2, 500 };

static char *url_of(const struct gck_s3_server *server, const struct gck_sigv4_keys *k,
		    const struct gck_sign_scope *of, const struct gck_sign_request *r,
		    struct gck_error *err)
{
	char *url = NULL;

	if (gck_s3_presign(server, k, of, r, NOW, 900, &url, err) < 0)
		return NULL;
	return url;
}

/* ---- verbs --------------------------------------------------------------------------------- */

#define KEY "https://h.example:8443/bucket/pre/fix/big/500/77/2/"
#define AMZ "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20130524%2Feu-1%2Fs3%2F" \
	"aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders="

static const struct {
	const char *name;
	struct gck_sign_request r;
	const char *url; /* up to the signature */
} verbs[] = {
	{"put, its content signed",
	 {GCK_SIGN_PUT, "7-ab/" HASH, .crc32c = "AAAAAA=="},
	 KEY "7-ab/" HASH "?" AMZ "host%3Bx-amz-checksum-crc32c"},
	{"put of a document, only if it is new",
	 {GCK_SIGN_PUT, "commit-7.json", .md5 = "1B2M2Y8AsgTpgAmY7PhCfg==", .only_new = true},
	 KEY "commit-7.json?" AMZ "content-md5%3Bhost%3Bif-none-match"},
	{"get", {GCK_SIGN_GET, "7-ab/rank-0.json"}, KEY "7-ab/rank-0.json?" AMZ "host"},
	{"head", {GCK_SIGN_HEAD, "7-ab/rank-12.json"}, KEY "7-ab/rank-12.json?" AMZ "host"},
	{"delete", {GCK_SIGN_DELETE, "commit-0.json"}, KEY "commit-0.json?" AMZ "host"},
	{"list of the step",
	 {GCK_SIGN_LIST, ""},
	 "https://h.example:8443/bucket?" AMZ "host&delimiter=%2F&list-type=2"
	 "&prefix=pre%2Ffix%2Fbig%2F500%2F77%2F2%2F"},
	{"list of a directory, a later page",
	 {GCK_SIGN_LIST, "7-ab/", .token = "a+b/c="},
	 "https://h.example:8443/bucket?" AMZ "host&continuation-token=a%2Bb%2Fc%3D&delimiter=%2F"
	 "&list-type=2&prefix=pre%2Ffix%2Fbig%2F500%2F77%2F2%2F7-ab%2F"},
	{"create_multipart",
	 {GCK_SIGN_CREATE_MULTIPART, "7-ab/rank-0.json"},
	 KEY "7-ab/rank-0.json?" AMZ "host&uploads="},
	{"part",
	 {GCK_SIGN_PART, "7-ab/rank-0.json", .upload = "u/1", .part = 10000},
	 KEY "7-ab/rank-0.json?" AMZ "host&partNumber=10000&uploadId=u%2F1"},
	{"complete_multipart",
	 {GCK_SIGN_COMPLETE_MULTIPART, "7-ab/rank-0.json", .upload = "u"},
	 KEY "7-ab/rank-0.json?" AMZ "host&uploadId=u"},
	{"abort_multipart",
	 {GCK_SIGN_ABORT_MULTIPART, "7-ab/rank-0.json", .upload = "u"},
	 KEY "7-ab/rank-0.json?" AMZ "host&uploadId=u"},
	{"list_multiparts",
	 {GCK_SIGN_LIST_MULTIPARTS, ""},
	 "https://h.example:8443/bucket?" AMZ
	 "host&prefix=pre%2Ffix%2Fbig%2F500%2F77%2F2%2F&uploads="},
};

static void test_verbs(void)
{
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
		struct gck_error err = { 0 };
		char *url = url_of(&path_style, &keys, &scope, &verbs[i].r, &err);
		char *end = url ? strstr(url, "&X-Amz-Signature=") : NULL;
		enum gck_sign_verb verb;

		if (end)
			*end = '\0';
		is_str(url ? url : err.text, verbs[i].url, verbs[i].name);
		ok(all_of(gck_sign_verb_parse(gck_sign_verb_name(verbs[i].r.verb), &verb, NULL) ==
				  0,
			  verb == verbs[i].r.verb),
		   "%s has its name", verbs[i].name);
		free(url);
	}
}

/* ---- hosts and keys ------------------------------------------------------------------------ */

static void is_url(const struct gck_s3_server *server, const char *store, const char *cluster,
		   const char *want, const char *name)
{
	const struct gck_sign_scope of = { store, cluster, 1, 0, 9 };
	const struct gck_sign_request r = { GCK_SIGN_GET, "commit-1.json" };
	struct gck_error err = { 0 };
	char *url = url_of(server, &keys, &of, &r, &err);

	if (url)
		*strchr(url, '?') = '\0';
	is_str(url ? url : err.text, want, name);
	free(url);
}

static void test_places(void)
{
	const struct gck_s3_server plain = { "http://10.0.0.1:8080", "r", false };
	const struct gck_sigv4_keys session = { "AK", "secret", "to/ken+" };
	const struct gck_sign_request list = { GCK_SIGN_LIST, "" };
	char *url;

	is_url(&virtual_style, "s3://bucket", "c", "https://bucket.h.example/c/9/1/0/commit-1.json",
	       "virtual host, no prefix");
	is_url(&plain, "s3://bucket/a", "c", "http://10.0.0.1:8080/bucket/a/c/9/1/0/commit-1.json",
	       "path addressing, http, a port");
	is_url(&path_style, "s3://bucket/a", "a b\xc3\xa4+%&?#\"'*()~=y;z",
	       "https://h.example:8443/bucket/a/a%20b%C3%A4%2B%25%26%3F%23%22%27%2A%28%29~%3Dy%3Bz/"
	       "9/1/0/commit-1.json", "odd characters are encoded, once");
	url = url_of(&virtual_style, &session, &scope, &list, NULL);
	ok(all_of(url, !strncmp(url, "https://bucket.h.example/?", 26)),
	   "virtual host: the bucket is /");
	ok(all_of(url, strstr(url, "&X-Amz-Security-Token=to%2Fken%2B&")), "a session's token");
	free(url);
}

static void refused(const struct gck_sign_scope *of, struct gck_sign_request r, const char *want)
{
	struct gck_error err = { 0 };
	char *url = url_of(&path_style, &keys, of, &r, &err);

	ok(all_of(!url, strstr(err.text, want)), "refused: %s %s of %s (%s)",
	   gck_sign_verb_name(r.verb), r.name, of->url, err.text);
	free(url);
}

static void test_refused(void)
{
	static const char *const names[] = {
		"",
		"x",
		"../78/2/commit-1.json",
		"commit-1.json/",
		"commit-01.json",
		"commit-.json",
		"7-ab/",
		"7-ab/../../8/0/commit-1.json",
		"7-ab/rank-0.jsonx",
		("7-ab/" HASH "0"),
		"7-/rank-0.json",
		"7-ab/rank-.json",
		("7-ab//" HASH),
		"7-ab/0123",
	};
	static const char *const urls[] = {
		"file:/x", "s3:bucket", "s3://", "s3://ab", "s3://bu?cket/a", "s3://bucket/a//b",
		"s3://bucket/../a", "s3://bucket/a/", "s3://bucket//", "s3://bucket/a\x7f"
	};
	const struct gck_sign_scope bad_cluster = { "s3://bucket", "..", 1, 0, 0 };
	const struct gck_sign_scope two = { "s3://bucket", "a/b", 1, 0, 0 };
	enum gck_sign_verb verb;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		for (verb = GCK_SIGN_PUT; verb <= GCK_SIGN_DELETE; verb++)
			refused(&scope, (struct gck_sign_request){ verb, names[i] },
				"not a name");
	refused(&scope, (struct gck_sign_request){ GCK_SIGN_LIST, "commit-1.json" }, "not a name");
	refused(&scope, (struct gck_sign_request){ GCK_SIGN_LIST, "7-ab" }, "not a name");
	refused(&scope, (struct gck_sign_request){ GCK_SIGN_LIST_MULTIPARTS, ".." }, "not a name");
	refused(&scope, (struct gck_sign_request){ GCK_SIGN_PART, "7-ab/" HASH, .part = 1 }, "id");
	refused(&scope, (struct gck_sign_request){GCK_SIGN_PART, "7-ab/" HASH, .upload = "u"},
		"part");
	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		const struct gck_sign_scope of = { urls[i], "c", 1, 0, 0 };

		refused(&of, (struct gck_sign_request){ GCK_SIGN_GET, "commit-1.json" }, "store ");
	}
	ok(gck_sign_verb_parse("post", &verb, NULL) < 0, "no verb: post");
	refused(&two, (struct gck_sign_request){ GCK_SIGN_GET, "commit-1.json" }, "cluster");
	refused(&bad_cluster, (struct gck_sign_request){GCK_SIGN_GET, "commit-1.json"}, "cluster");
}

int main(void)
{
	test_verbs();
	test_places();
	test_refused();
	return tap_done();
}
