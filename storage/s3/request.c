/* SPDX-License-Identifier: Apache-2.0
 * One request with its retries, and the meaning of the server's refusals. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "storage/s3/presign.h"
#include "storage/s3/request.h"
#include "storage/s3/signer.h"

#define ATTEMPTS 10
#define SIGNATURES 2 /* attempts with refused signatures: the keys may have changed meanwhile */
#define PAUSE_MAX 10000
#define PAUSE_ASKED 30 /* seconds; the server may ask for more */

#define SKEW 240 /* seconds between two clocks that are mentioned; S3 refuses from 900 on */

#define CHANGED ": the bytes change on their way"
#define ELSEWHERE ": the bucket is elsewhere: see S3Endpoint and S3Region"

unsigned gck_s3_pause = 200;

static const char *const roots[] = {
	[GCK_SIGN_LIST] = "ListBucketResult",
	[GCK_SIGN_CREATE_MULTIPART] = "InitiateMultipartUploadResult",
	[GCK_SIGN_COMPLETE_MULTIPART] = "CompleteMultipartUploadResult",
	[GCK_SIGN_LIST_MULTIPARTS] = "ListMultipartUploadsResult",
	[GCK_SIGN_WALK] = "ListBucketResult",
};

/* ---- refusals ------------------------------------------------------------------------------- */

/* What the answer to a request means. */
enum refusal {
	REFUSAL_NONE,    /* a success */
	REFUSAL_LATER,   /* the same request may succeed later */
	REFUSAL_SIGNED,  /* the signature was refused: a new one may be accepted */
	REFUSAL_UNKNOWN, /* the server does not know a header or a request */
	REFUSAL_FINAL,
};

/* By the server's code first, then by the status: HEAD has no body, and dialects differ. */
static const struct meaning {
	const char *code;
	long status;
	enum refusal what;
	int error;
	const char *remedy;
} meanings[] = {
	{ "RequestTimeTooSkewed", 0, REFUSAL_SIGNED, EACCES, "" },
	{ "NoSuchBucket", 0, REFUSAL_FINAL, ENODEV, ": make the bucket, or see S3Store" },
	{ "InvalidAccessKeyId", 0, REFUSAL_SIGNED, EACCES, ": see S3KeyFile" },
	{ "SignatureDoesNotMatch", 0, REFUSAL_SIGNED, EACCES,
	  ": see the secret in S3KeyFile, and S3Region" },
	{ "ExpiredToken", 0, REFUSAL_SIGNED, EACCES, ": S3KeyFile needs a new session token" },
	{ "InvalidToken", 0, REFUSAL_SIGNED, EACCES, ": see the session token in S3KeyFile" },
	{ "AuthorizationHeaderMalformed", 0, REFUSAL_FINAL, EACCES, ": see S3Region" },
	{ "AuthorizationQueryParametersError", 0, REFUSAL_FINAL, EACCES, ": see S3Region" },
	{ "QuotaExceeded", 0, REFUSAL_FINAL, EDQUOT,
	  ": remove checkpoints, or raise the quota" },
	{ "RequestTimeout", 0, REFUSAL_LATER, EIO, "" },
	{ "BadDigest", 0, REFUSAL_LATER, EIO, CHANGED },
	{ "XAmzContentChecksumMismatch", 0, REFUSAL_LATER, EIO, CHANGED },
	{ "IncompleteBody", 0, REFUSAL_LATER, EIO, "" },
	{ "NotImplemented", 0, REFUSAL_UNKNOWN, ENOTSUP, "" },
	{ NULL, 301, REFUSAL_FINAL, EIO, ELSEWHERE },
	{ NULL, 307, REFUSAL_FINAL, EIO, ELSEWHERE },
	{ NULL, 401, REFUSAL_SIGNED, EACCES, ": see S3KeyFile" },
	{ NULL, 403, REFUSAL_SIGNED, EACCES, ": may S3KeyFile's keys do this in the bucket?" },
	{ NULL, 404, REFUSAL_FINAL, ENOENT, "" },
	{ NULL, 405, REFUSAL_FINAL, ENOTSUP, "" },
	{ NULL, 408, REFUSAL_LATER, EIO, "" },
	{ NULL, 409, REFUSAL_LATER, EIO, "" },
	{ NULL, 412, REFUSAL_FINAL, EEXIST, ": another one of that name is there" },
	{ NULL, 413, REFUSAL_FINAL, EDQUOT, ": has the bucket a quota?" },
	{ NULL, 416, REFUSAL_FINAL, EBADMSG, ": the object is shorter than its commit says" },
	{ NULL, 429, REFUSAL_LATER, EIO, "" },
	{ NULL, 501, REFUSAL_UNKNOWN, ENOTSUP, "" },
	{ NULL, 507, REFUSAL_FINAL, ENOSPC, ": the object store is full" },
};

#define MEANINGS (sizeof meanings / sizeof meanings[0])

static const struct meaning *meaning_of(const struct gck_http *h, const struct gck_s3_error *said)
{
	static const struct meaning bad = { NULL, 0, REFUSAL_FINAL, EIO, "" };
	static const struct meaning later = { NULL, 0, REFUSAL_LATER, EIO, "" };

	for (size_t i = 0; i < MEANINGS; i++)
		if (meanings[i].code ? !strcmp(meanings[i].code, said->code) :
				       meanings[i].status == h->status)
			return &meanings[i];
	/* A 200 with an error in it is a server that failed after it had begun to answer. */
	return h->status / 100 == 5 || h->status / 100 == 2 ? &later : &bad;
}

static enum refusal refusal_of(const struct gck_http *h, const struct gck_s3_error *said)
{
	if (h->status / 100 == 2 && !*said->code)
		return REFUSAL_NONE;
	return meaning_of(h, said)->what;
}

/* Seconds by which the server's clock is ahead of the signer's; 0: unknown. */
static long skew_of(const struct gck_http *h)
{
	const char *stamp = strstr(h->url, "X-Amz-Date=");
	struct tm tm = { 0 };

	if (h->date < 0 || !stamp ||
	    !strptime(stamp + strlen("X-Amz-Date="), "%Y%m%dT%H%M%SZ", &tm))
		return 0;
	return h->date - timegm(&tm);
}

/* Each URL is signed when it is used: a refusal for its time means that the clocks differ. */
static bool is_clock(const struct gck_http *h, const struct gck_s3_error *said, long skew)
{
	if (h->status != 403)
		return false;
	return labs(skew) > SKEW || !strcmp(said->code, "RequestTimeTooSkewed") ||
	       strcasestr(said->message, "expired") || strcasestr(said->message, "not yet valid");
}

static int refusal_fail(const struct gck_http *h, const struct gck_s3_error *said,
			struct gck_error *err)
{
	const struct meaning *m = meaning_of(h, said);
	long skew = skew_of(h);
	char remedy[160];

	snprintf(remedy, sizeof remedy, "%s", m->remedy);
	if (is_clock(h, said, skew))
		snprintf(remedy, sizeof remedy, ": the clock of gpuckptd's host is %ld s %s the "
			 "object store's: set both by NTP", labs(skew),
			 skew < 0 ? "ahead of" : "behind");
	return gck_fail(err, m->error, "the server answers %ld%s%s%s%.150s%s", h->status,
			*said->code ? " " : "", said->code, *said->message ? ", " : "",
			said->message, remedy);
}

/* ---- one attempt ---------------------------------------------------------------------------- */

struct lines {
	char md5[64], crc32c[64], range[64];
};

static void fill(struct gck_http *h, const struct gck_s3_call *c, const struct gck_signed *url,
		 struct lines *l)
{
	size_t n = 0;

	*h = (struct gck_http){.method = gck_s3_method(c->sign.verb),
			       .url = url->url,
			       .ca = url->ca,
			       .body = c->body,
			       .body_size = c->size,
			       .into = c->into,
			       .capacity = c->capacity,
			       .patience = gck_sign_request_timeout()};
	if (c->sign.md5) {
		snprintf(l->md5, sizeof l->md5, "Content-MD5: %s", c->sign.md5);
		h->headers[n++] = l->md5;
	}
	if (c->sign.crc32c) {
		snprintf(l->crc32c, sizeof l->crc32c, "x-amz-checksum-crc32c: %s", c->sign.crc32c);
		h->headers[n++] = l->crc32c;
	}
	if (c->sign.only_new)
		h->headers[n++] = "If-None-Match: *";
	if (c->into) {
		snprintf(l->range, sizeof l->range, "%llu-%llu", (unsigned long long)c->offset,
			 (unsigned long long)(c->offset + c->capacity - 1));
		h->range = l->range;
	}
}

static int wrong_part(const struct gck_s3_call *c, struct gck_error *err)
{
	return gck_fail(err, EPROTO, "bytes from %llu on were asked for, the answer is of those "
			"from %llu on", (unsigned long long)c->offset,
			(unsigned long long)c->http.first);
}

/* An S3 server's answer about an object has an ETag, and one to a removal has no body. Otherwise
 * the answer is a page of a proxy or of another server. */
static int check_origin(const struct gck_s3_call *c, struct gck_error *err)
{
	static const char advice[] = "is S3Endpoint an S3 server's?";

	switch (c->sign.verb) {
	case GCK_SIGN_PUT:
	case GCK_SIGN_PART:
	case GCK_SIGN_GET:
	case GCK_SIGN_HEAD:
		return *c->http.etag ? 0
				     : gck_fail(err, EPROTO, "the answer has no ETag: %s", advice);
	case GCK_SIGN_DELETE:
	case GCK_SIGN_ABORT_MULTIPART:
		return !c->http.size ? 0
				     : gck_fail(err, EPROTO, "the answer has a body: %s", advice);
	default:
		return gck_xml_read(c->http.text, c->http.size, c->root, NULL, NULL, err);
	}
}

/* Check that the answer has the whole requested part; a 200 has the whole object. */
static int check_part(struct gck_s3_call *c, struct gck_error *err)
{
	if (c->http.status != 206)
		c->http.first = 0;
	if (c->http.first != c->offset)
		return wrong_part(c, err);
	if (c->http.got == c->capacity)
		return 0;
	if (c->http.status != 206)
		return gck_fail(err, EPROTO, "the answer, without a range, has %zu bytes of %zu",
				c->http.got, c->capacity);
	return gck_fail(err, EBADMSG, "the object ends at byte %llu, its commit says otherwise",
			(unsigned long long)(c->offset + c->http.got));
}

/* Check that a success answers the request. */
static int check_answer(struct gck_s3_call *c, struct gck_error *err)
{
	if (check_origin(c, err) < 0)
		return -1;
	return c->into ? check_part(c, err) : 0;
}

static enum refusal look(struct gck_s3_call *c, struct gck_error *err)
{
	enum refusal what;

	gck_xml_error(c->http.text, c->http.size, &c->said);
	what = refusal_of(&c->http, &c->said);
	if (what != REFUSAL_NONE) {
		refusal_fail(&c->http, &c->said, err);
		return what;
	}
	if (check_answer(c, err) == 0)
		return REFUSAL_NONE;
	return err->code == EPROTO ? REFUSAL_LATER : REFUSAL_FINAL;
}

static enum refusal attempt(struct gck_s3_store *s, struct gck_s3_call *c,
				struct gck_error *err)
{
	struct gck_signed url;
	struct lines l;
	enum refusal what;

	if (gck_sign(&s->of, &c->sign, &url, err) < 0)
		return REFUSAL_FINAL;
	fill(&c->http, c, &url, &l);
	if (gck_http(&c->http, err) == 0)
		what = look(c, err);
	else
		what = err->code == EACCES || err->code == ENOMEM || err->code == EINVAL ?
			       REFUSAL_FINAL :
			       REFUSAL_LATER;
	if (what != REFUSAL_NONE)
		gck_http_end(&c->http);
	c->http.url = c->http.ca = NULL;
	gck_signed_free(&url);
	return what;
}

/* Leave out a feature that the server does not know; false: there is none. */
static bool simplify(struct gck_s3_store *s, struct gck_s3_call *c)
{
	if (c->sign.only_new) {
		c->sign.only_new = false;
		s->no_condition = true;
		return true;
	}
	if (c->sign.crc32c) {
		c->sign.crc32c = NULL;
		s->checksum = GCK_S3_NO_CRC32C;
		return true;
	}
	return false;
}

/* The pause doubles with each attempt; a random part spreads the retries of many processes. */
static void wait_before(unsigned attempt_, time_t asked)
{
	unsigned long ms = (unsigned long)gck_s3_pause << (attempt_ < 8 ? attempt_ : 8);
	unsigned seed = 0;

	if (ms > PAUSE_MAX)
		ms = PAUSE_MAX;
	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
		seed = 0;
	ms = ms / 2 + seed % (ms / 2 + 1);
	if (asked > PAUSE_ASKED)
		asked = PAUSE_ASKED;
	if (ms < (unsigned long)asked * 1000)
		ms = (unsigned long)asked * 1000;
	nanosleep(&(struct timespec){ .tv_sec = (time_t)(ms / 1000),
				      .tv_nsec = (long)(ms % 1000) * 1000000 }, NULL);
}

int gck_s3_fail_in(struct gck_s3_store *s, const struct gck_sign_request *r, struct gck_error *err)
{
	return gck_fail_in(err, "%.200s/%s: %s", s->head.where, r->name,
			   gck_sign_verb_name(r->verb));
}

/* Fill err with the request, the number of attempts, and the reason. */
static int failed(struct gck_s3_store *s, const struct gck_s3_call *c, unsigned attempts,
		  const struct gck_error *why, struct gck_error *err)
{
	if (err)
		*err = *why;
	if (attempts > 1)
		gck_fail_in(err, "attempt %u", attempts);
	return gck_s3_fail_in(s, &c->sign, err);
}

int gck_s3_call(struct gck_s3_store *s, struct gck_s3_call *c, struct gck_error *err)
{
	struct gck_error why = { 0 }, trouble;
	unsigned refused = 0, n = 0;

	c->root = roots[c->sign.verb];
	c->sign.only_new = c->sign.only_new && !s->no_condition;
	if (s->checksum == GCK_S3_NO_CRC32C)
		c->sign.crc32c = NULL;
	for (;;) {
		enum refusal what = attempt(s, c, &why);

		n++;
		if (what == REFUSAL_NONE)
			return 0;
		if (what == REFUSAL_UNKNOWN && simplify(s, c))
			continue;
		if (what == REFUSAL_SIGNED && ++refused < SIGNATURES)
			continue;
		if (what != REFUSAL_LATER || n >= ATTEMPTS)
			return failed(s, c, n, &why, err);
		failed(s, c, n, &why, &trouble);
		gck_sign_report_retry(&trouble);
		wait_before(n - 1, c->http.retry_after);
	}
}

void gck_s3_end(struct gck_s3_call *c)
{
	gck_http_end(&c->http);
}

int gck_s3_remove(struct gck_s3_store *s, const struct gck_sign_request *sign,
		  struct gck_error *err)
{
	struct gck_s3_call c = { .sign = *sign };
	struct gck_error why = { 0 };

	if (gck_s3_call(s, &c, &why) == 0) {
		gck_s3_end(&c);
		return 0;
	}
	if (why.code == ENOENT)
		return 0;
	if (err)
		*err = why;
	return -1;
}
