/* SPDX-License-Identifier: Apache-2.0
 * The verbs, the keys of names, and which names may be signed. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/s3_url.h"
#include "storage/base/names.h"
#include "storage/s3/sign_request.h"

#define CLUSTER_MAX 256 /* with GCK_S3_URL_MAX and GCK_NAME_MAX below 1024, a key's limit */

static const char *const verbs[] = {
	[GCK_SIGN_PUT] = "put",
	[GCK_SIGN_GET] = "get",
	[GCK_SIGN_HEAD] = "head",
	[GCK_SIGN_DELETE] = "delete",
	[GCK_SIGN_LIST] = "list",
	[GCK_SIGN_CREATE_MULTIPART] = "create_multipart",
	[GCK_SIGN_PART] = "part",
	[GCK_SIGN_COMPLETE_MULTIPART] = "complete_multipart",
	[GCK_SIGN_ABORT_MULTIPART] = "abort_multipart",
	[GCK_SIGN_LIST_MULTIPARTS] = "list_multiparts",
	[GCK_SIGN_WALK] = "walk",
};

#define VERBS GCK_SIGN_WALK /* of the protocol: those before it */

const char *gck_sign_verb_name(enum gck_sign_verb verb)
{
	return verbs[verb];
}

int gck_sign_verb_parse(const char *name, enum gck_sign_verb *verb, struct gck_error *err)
{
	for (size_t i = 0; i < VERBS; i++) {
		if (!strcmp(verbs[i], name)) {
			*verb = (enum gck_sign_verb)i;
			return 0;
		}
	}
	return gck_fail(err, EINVAL, "\"%.40s\" is not a request that is signed", name);
}

int gck_s3_url_parse(const char *url, char bucket[GCK_S3_BUCKET_MAX], const char **prefix,
		     struct gck_error *err)
{
	const char *start = url + strlen("s3://"), *slash;

	if (gck_s3_url_check(url, err) < 0)
		return gck_fail_in(err, "store %.200s", url);
	slash = strchrnul(start, '/');
	memcpy(bucket, start, (size_t)(slash - start));
	bucket[slash - start] = '\0';
	*prefix = *slash ? slash + 1 : slash;
	return 0;
}

/* One component of a key, of any bytes that XML can represent. */
static bool cluster_ok(const char *cluster)
{
	size_t n = strlen(cluster);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)cluster[i] < 0x20 || cluster[i] == 0x7f || cluster[i] == '/')
			return false;
	return n > 0 && n < CLUSTER_MAX && strcmp(cluster, ".") && strcmp(cluster, "..");
}

int gck_s3_key_above(const struct gck_sign_scope *of, const char *name, char **key,
		     struct gck_error *err)
{
	char bucket[GCK_S3_BUCKET_MAX];
	const char *prefix;
	char *text;

	if (gck_s3_url_parse(of->url, bucket, &prefix, err) < 0)
		return -1;
	if (!cluster_ok(of->cluster))
		return gck_fail(err, EINVAL, "\"%.80s\" is not a cluster's name", of->cluster);
	if (asprintf(&text, "%s%s%s/%s", prefix, *prefix ? "/" : "", of->cluster, name) < 0)
		return gck_fail(err, ENOMEM, "no memory for the key of %s", name);
	*key = text;
	return 0;
}

int gck_s3_key(const struct gck_sign_scope *of, const char *name, char **key,
	       struct gck_error *err)
{
	char below[3 * sizeof "4294967295/" + GCK_NAME_MAX];

	snprintf(below, sizeof below, "%" PRIu32 "/%" PRIu32 "/%" PRIu32 "/%s", of->uid, of->job,
		 of->step, name);
	return gck_s3_key_above(of, below, key, err);
}

/* "", "<uid>/" or "<uid>/<job>/". */
static bool is_above(const char *name)
{
	size_t n = strspn(name, "0123456789/");

	return !name[n] && n < GCK_NAME_MAX && (!n || name[n - 1] == '/');
}

int gck_s3_name_check(enum gck_sign_verb verb, const char *name, uint32_t *seq,
		      struct gck_error *err)
{
	bool lists = verb == GCK_SIGN_LIST || verb == GCK_SIGN_LIST_MULTIPARTS;

	if (verb == GCK_SIGN_WALK ? is_above(name) :
	    lists ? !*name || gck_name_is_dir(name, seq) :
		    gck_name_is_commit(name, seq) || gck_name_is_content(name, seq))
		return 0;
	return gck_fail(err, EPERM, "\"%.100s\" is not a name of the store's: not signed for %s",
			name, gck_sign_verb_name(verb));
}
