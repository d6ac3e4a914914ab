/* SPDX-License-Identifier: Apache-2.0
 * Who signs for s3:. A process that works on an s3: store has no keys; it asks a signer, which hands
 * out presigned URLs for single requests on names of one step. In the agent, its workers and the CLI
 * that is gpuckptd behind a connection; in gpuckptd and in tests it is gck_s3_presign itself. */
#ifndef GCK_SIGNER_H
#define GCK_SIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/error.h"

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
};

/* "put", "create_multipart", ...: as the protocol has them. parse: -1 (EINVAL) for another. */
const char *gck_sign_verb_name(enum gck_sign_verb verb);
int gck_sign_verb_parse(const char *name, enum gck_sign_verb *verb, struct gck_error *err);

/* What is to be signed. Members that a verb does not use are NULL, 0 or false. */
struct gck_sign_request {
	enum gck_sign_verb verb;
	/* Below the step, as storage/base/backend.h has names. list: "" or "<seq>-<nonce>/", what is
	 * directly in it; list_multiparts: the same, and all below it. */
	const char *name;
	const char *token;  /* list: the next page */
	const char *upload; /* part, complete_multipart, abort_multipart: the upload's id */
	unsigned part;      /* part: 1 to 10000 */
	/* Headers that are signed, so that the URL is good for this content only; whoever makes the
	 * request sends them: put and part. Base64 of the MD5 and of the big-endian CRC-32C. */
	const char *md5, *crc32c;
	bool only_new; /* put, complete_multipart: If-None-Match: * */
};

/* The step whose store it is: what was given to gck_store_open; and whose job that is, which only
 * who signs knows and is to say: numbers of jobs come again, and a bucket has no owners. */
struct gck_sign_scope {
	const char *url; /* s3://bucket/prefix */
	const char *cluster;
	uint32_t job, step, uid;
};

/* Sign n requests: urls[i] is free()d by the caller; on failure none is set. *expires: when the
 * first of them ends to be good. *ca: path of the file with the certificates that the server's is
 * checked against, free()d by the caller; NULL: the system's. Called by one thread at a time. */
typedef int gck_sign_fn(void *arg, const struct gck_sign_scope *of, const struct gck_sign_request *v,
			size_t n, char **urls, time_t *expires, char **ca, struct gck_error *err);

/* For the whole process, before the first gck_store_open of an s3:// URL. */
void gck_store_signer(gck_sign_fn *fn, void *arg);

/* Seconds without a byte moving after which a request is given up and made anew (30). */
void gck_store_request_timeout(unsigned seconds);

/* Who wants to hear, from any thread, of requests that are made again, and why. */
typedef void gck_retry_fn(void *arg, const struct gck_error *why);
void gck_store_on_retry(gck_retry_fn *fn, void *arg);

#endif
