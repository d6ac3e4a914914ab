/* SPDX-License-Identifier: Apache-2.0
 * Requests on a step's store as presigned URLs: what gpuckptd, which has the keys, does for
 * everybody else. Nothing is signed but names that the store itself makes (storage/base/names.c), below
 * <prefix>/<cluster>/<job>/<step>/ of the scope; whose job it is, and what may be written or
 * removed now, is for the caller to know. */
#ifndef GCK_PRESIGN_H
#define GCK_PRESIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "storage/s3/signer.h"
#include "storage/s3/sigv4.h"

#define GCK_S3_BUCKET_MAX 64

struct gck_s3_server {
	const char *endpoint; /* https://host[:port] */
	const char *region;
	bool virtual_host; /* https://bucket.host/key, not https://host/bucket/key */
};

/* s3://bucket[/prefix]: the bucket, and the prefix, borrowed from url.
 * -1: EINVAL. */
int gck_s3_url_parse(const char *url, char bucket[GCK_S3_BUCKET_MAX], const char **prefix,
		     struct gck_error *err);

const char *gck_s3_method(enum gck_sign_verb verb); /* "PUT" */

/* [prefix/]cluster/uid/job/step/name; free()d by the caller. -1: EINVAL, ENOMEM. */
int gck_s3_key(const struct gck_sign_scope *of, const char *name, char **key,
	       struct gck_error *err);

/* -1 (EPERM) unless it is a name that the verb may be used on. *seq: the checkpoint that the name
 * belongs to (left alone for the step itself, ""). */
int gck_s3_name_check(enum gck_sign_verb verb, const char *name, uint32_t *seq,
		      struct gck_error *err);

/* The URL of a request that is made from now until now + seconds (at most a week); free()d by the
 * caller. -1: EPERM (name), EINVAL (url, endpoint, a member that the verb needs), ENOMEM. */
int gck_s3_presign(const struct gck_s3_server *server, const struct gck_sigv4_keys *keys,
		   const struct gck_sign_scope *of, const struct gck_sign_request *r, time_t now,
		   unsigned seconds, char **url, struct gck_error *err);

#endif
