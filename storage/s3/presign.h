/* SPDX-License-Identifier: Apache-2.0
 * Requests on a step's store as presigned URLs: gpuckptd, which has the keys, makes them for all
 * others. Only names that the store itself makes (storage/base/names.c) are signed, below
 * <prefix>/<cluster>/<job>/<step>/ of the scope. The caller must know whose job it is, and what may
 * be written or removed now. */
#ifndef GCK_PRESIGN_H
#define GCK_PRESIGN_H

#include "storage/s3/sign_request.h"
#include "storage/s3/sigv4.h"

struct gck_s3_server {
	const char *endpoint; /* https://host[:port] */
	const char *region;
	bool virtual_host; /* https://bucket.host/key, not https://host/bucket/key */
};

const char *gck_s3_method(enum gck_sign_verb verb); /* "PUT" */

/* The URL of a request, valid from now until now + seconds (at most a week); free() it. -1: EPERM
 * (name), EINVAL (url, endpoint, a member that the verb needs), ENOMEM. */
GCK_MUST_CHECK int gck_s3_presign(const struct gck_s3_server *server,
				  const struct gck_sigv4_keys *keys,
				  const struct gck_sign_scope *of, const struct gck_sign_request *r,
				  time_t now, unsigned seconds, char **url, struct gck_error *err);

#endif
