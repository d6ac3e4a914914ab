/* SPDX-License-Identifier: Apache-2.0
 * A request to be signed: its verb, the step whose store it is, the name in it, and the key of that
 * name in the bucket. */
#ifndef GCK_SIGN_REQUEST_H
#define GCK_SIGN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_S3_BUCKET_MAX 64

enum gck_sign_verb {
	GCK_SIGN_PUT,
	GCK_SIGN_GET,
	GCK_SIGN_HEAD,
	GCK_SIGN_DELETE,
	GCK_SIGN_LIST,
	GCK_SIGN_CREATE_MULTIPART,
	GCK_SIGN_PART,
	GCK_SIGN_COMPLETE_MULTIPART,
	GCK_SIGN_ABORT_MULTIPART,
	GCK_SIGN_LIST_MULTIPARTS,
	GCK_SIGN_WALK, /* a list above steps; only a process with the keys can make it */
};

/* "put", "create_multipart", ...: as the protocol has them. parse: -1 (EINVAL) for another, and for
 * "walk", which is not in the protocol. */
const char *gck_sign_verb_name(enum gck_sign_verb verb);
GCK_MUST_CHECK int gck_sign_verb_parse(const char *name, enum gck_sign_verb *verb,
				       struct gck_error *err);

/* The request. Members that a verb does not use are NULL, 0 or false. */
struct gck_sign_request {
	enum gck_sign_verb verb;
	/* Below the step, as storage/base/backend.h has names. list: "" or "<seq>-<nonce>/", of
	 * which the direct content is listed; list_multiparts: the same, with everything below
	 * it. walk: below the cluster: "", "<uid>/", "<uid>/<job>/". */
	const char *name;
	const char *token;  /* list: the next page */
	const char *upload; /* part, complete_multipart, abort_multipart: the upload's id */
	unsigned part;      /* part: 1 to 10000 */
	/* put and part: headers that are signed, so that the URL is valid for this content only,
	 * and that the request must carry. Base64 of the MD5 and of the big-endian CRC-32C. */
	const char *md5, *crc32c;
	bool only_new; /* put, complete_multipart: If-None-Match: * */
};

/* The step whose store it is, as given to gck_store_open, and the job's owner. Only the signer
 * knows the owner: job numbers are reused, and a bucket has no owners. */
struct gck_sign_scope {
	const char *url; /* s3://bucket/prefix */
	const char *cluster;
	uint32_t job, step, uid;
};

/* Split s3://bucket[/prefix] into the bucket and the prefix, borrowed from url. -1: EINVAL. */
GCK_MUST_CHECK int gck_s3_url_parse(const char *url, char bucket[GCK_S3_BUCKET_MAX],
				    const char **prefix, struct gck_error *err);

/* Make [prefix/]cluster/uid/job/step/name; free() it. -1: EINVAL, ENOMEM. */
GCK_MUST_CHECK int gck_s3_key(const struct gck_sign_scope *of, const char *name, char **key,
			      struct gck_error *err);

/* Make [prefix/]cluster/name likewise. */
GCK_MUST_CHECK int gck_s3_key_above(const struct gck_sign_scope *of, const char *name, char **key,
				    struct gck_error *err);

/* -1 (EPERM) unless the verb may be used on the name. *seq: the checkpoint that the name belongs to
 * (unchanged for the step itself, ""). */
GCK_MUST_CHECK int gck_s3_name_check(enum gck_sign_verb verb, const char *name, uint32_t *seq,
				     struct gck_error *err);

#endif
