/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/s3/refusal.h"

#define SKEW 240 /* seconds between two clocks that are worth a word; S3 refuses from 900 on */

#define CHANGED ": the bytes change on their way"
#define ELSEWHERE ": the bucket is elsewhere: see S3Endpoint and S3Region"

/* By the server's code first, then by the status: HEAD has no body, and dialects differ. */
static const struct meaning {
	const char *code;
	long status;
	enum gck_refusal what;
	int error;
	const char *remedy;
} meanings[] = {
	{ "RequestTimeTooSkewed", 0, GCK_REFUSAL_SIGNED, EACCES, "" },
	{ "NoSuchBucket", 0, GCK_REFUSAL_FINAL, ENODEV, ": make the bucket, or see S3Store" },
	{ "InvalidAccessKeyId", 0, GCK_REFUSAL_SIGNED, EACCES, ": see S3KeyFile" },
	{ "SignatureDoesNotMatch", 0, GCK_REFUSAL_SIGNED, EACCES,
	  ": see the secret in S3KeyFile, and S3Region" },
	{ "ExpiredToken", 0, GCK_REFUSAL_SIGNED, EACCES, ": S3KeyFile needs a new session token" },
	{ "InvalidToken", 0, GCK_REFUSAL_SIGNED, EACCES, ": see the session token in S3KeyFile" },
	{ "AuthorizationHeaderMalformed", 0, GCK_REFUSAL_FINAL, EACCES, ": see S3Region" },
	{ "AuthorizationQueryParametersError", 0, GCK_REFUSAL_FINAL, EACCES, ": see S3Region" },
	{ "QuotaExceeded", 0, GCK_REFUSAL_FINAL, EDQUOT,
	  ": remove checkpoints, or raise the quota" },
	{ "RequestTimeout", 0, GCK_REFUSAL_LATER, EIO, "" },
	{ "BadDigest", 0, GCK_REFUSAL_LATER, EIO, CHANGED },
	{ "XAmzContentChecksumMismatch", 0, GCK_REFUSAL_LATER, EIO, CHANGED },
	{ "IncompleteBody", 0, GCK_REFUSAL_LATER, EIO, "" },
	{ "NotImplemented", 0, GCK_REFUSAL_UNKNOWN, ENOTSUP, "" },
	{ NULL, 301, GCK_REFUSAL_FINAL, EIO, ELSEWHERE },
	{ NULL, 307, GCK_REFUSAL_FINAL, EIO, ELSEWHERE },
	{ NULL, 401, GCK_REFUSAL_SIGNED, EACCES, ": see S3KeyFile" },
	{ NULL, 403, GCK_REFUSAL_SIGNED, EACCES, ": may S3KeyFile's keys do this in the bucket?" },
	{ NULL, 404, GCK_REFUSAL_FINAL, ENOENT, "" },
	{ NULL, 405, GCK_REFUSAL_FINAL, ENOTSUP, "" },
	{ NULL, 408, GCK_REFUSAL_LATER, EIO, "" },
	{ NULL, 409, GCK_REFUSAL_LATER, EIO, "" },
	{ NULL, 412, GCK_REFUSAL_FINAL, EEXIST, ": another one of that name is there" },
	{ NULL, 413, GCK_REFUSAL_FINAL, EDQUOT, ": has the bucket a quota?" },
	{ NULL, 416, GCK_REFUSAL_FINAL, EBADMSG, ": the object is shorter than its commit says" },
	{ NULL, 429, GCK_REFUSAL_LATER, EIO, "" },
	{ NULL, 501, GCK_REFUSAL_UNKNOWN, ENOTSUP, "" },
	{ NULL, 507, GCK_REFUSAL_FINAL, ENOSPC, ": the object store is full" },
};

#define MEANINGS (sizeof meanings / sizeof meanings[0])

static const struct meaning *meaning_of(const struct gck_http *h, const struct gck_s3_error *said)
{
	static const struct meaning bad = { NULL, 0, GCK_REFUSAL_FINAL, EIO, "" };
	static const struct meaning later = { NULL, 0, GCK_REFUSAL_LATER, EIO, "" };

	for (size_t i = 0; i < MEANINGS; i++)
		if (meanings[i].code ? !strcmp(meanings[i].code, said->code) :
				       meanings[i].status == h->status)
			return &meanings[i];
	/* A 200 with an error in it is a server that failed after it had begun to answer. */
	return h->status / 100 == 5 || h->status / 100 == 2 ? &later : &bad;
}

enum gck_refusal gck_refusal_of(const struct gck_http *h, const struct gck_s3_error *said)
{
	if (h->status / 100 == 2 && !*said->code)
		return GCK_REFUSAL_NONE;
	return meaning_of(h, said)->what;
}

/* How far the server's clock is ahead of the one that signed; 0: not known. */
static long skew_of(const struct gck_http *h)
{
	const char *stamp = strstr(h->url, "X-Amz-Date=");
	struct tm tm = { 0 };

	if (h->date < 0 || !stamp ||
	    !strptime(stamp + strlen("X-Amz-Date="), "%Y%m%dT%H%M%SZ", &tm))
		return 0;
	return h->date - timegm(&tm);
}

/* Each URL is signed when it is used, so one that is refused for its time tells of the clocks. */
static bool is_clock(const struct gck_http *h, const struct gck_s3_error *said, long skew)
{
	if (h->status != 403)
		return false;
	return labs(skew) > SKEW || !strcmp(said->code, "RequestTimeTooSkewed") ||
	       strcasestr(said->message, "expired") || strcasestr(said->message, "not yet valid");
}

int gck_refusal_fail(const struct gck_http *h, const struct gck_s3_error *said,
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
