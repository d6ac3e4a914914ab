/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "storage/s3/probe.h"

#include <time.h>

#include "storage/s3/s3.h"

#define NAME "commit-0.json" /* no checkpoint has the number 0 */

static int call(struct gck_s3_store *s, enum gck_sign_verb verb, bool only_new,
		struct gck_s3_probe *found, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { .verb = verb,
					   .name = verb == GCK_SIGN_LIST ? "" : NAME,
					   .only_new = only_new },
				 .body = "{}", .size = verb == GCK_SIGN_PUT ? 2 : 0 };

	if (gck_s3_call(s, &c, err) < 0)
		return -1;
	if (c.http.date >= 0)
		found->skew_s = c.http.date - time(NULL);
	gck_s3_end(&c);
	return 0;
}

/* The object is there: only a server that knows the condition says so. */
static int try_condition(struct gck_s3_store *s, struct gck_s3_probe *found, struct gck_error *err)
{
	struct gck_error why = { 0 };

	if (call(s, GCK_SIGN_PUT, true, found, &why) == 0) {
		found->only_new = false;
		return 0;
	}
	found->only_new = why.code == EEXIST;
	if (!found->only_new && err)
		*err = why;
	return found->only_new ? 0 : -1;
}

int gck_s3_probe(const char *url, const char *cluster, struct gck_s3_probe *found,
		 struct gck_error *err)
{
	struct gck_backend *b = gck_s3_open(url, cluster, 0, 0, true, err);
	struct gck_s3_store *s = (struct gck_s3_store *)b;
	int rc;

	if (!b)
		return -1;
	rc = call(s, GCK_SIGN_LIST, false, found, err) < 0 ||
		     call(s, GCK_SIGN_PUT, false, found, err) < 0 ||
		     try_condition(s, found, err) < 0 ||
		     call(s, GCK_SIGN_DELETE, false, found, err) < 0 ? -1 : 0;
	b->ops->close(b);
	return rc;
}
