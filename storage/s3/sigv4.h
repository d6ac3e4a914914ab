/* SPDX-License-Identifier: Apache-2.0
 * AWS Signature Version 4 in the query of a URL ("presigned") for S3, which encodes the path once
 * and does not normalise it. Algorithm: AWS General Reference, "Create a signed AWS API request".
 * No I/O, no state; it takes a few microseconds. */
#ifndef GCK_SIGV4_H
#define GCK_SIGV4_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/base/error.h"

#define GCK_SIGV4_PAIRS 4 /* that a request may have in its query, and in its headers */
#define GCK_SIGV4_SECONDS_MAX (7u * 24 * 3600)

struct gck_sigv4_keys {
	const char *access, *secret;
	const char *token; /* session token; NULL: none */
};

struct gck_sigv4_pair {
	const char *name, *value; /* name NULL ends a list */
};

struct gck_sigv4_request {
	const char *method;
	const char *scheme, *host; /* "https", "host[:port]" */
	const char *path;          /* begins with '/'; not encoded */
	struct gck_sigv4_pair query[GCK_SIGV4_PAIRS + 1];   /* not encoded */
	struct gck_sigv4_pair headers[GCK_SIGV4_PAIRS + 1]; /* without host; names in lower case */
	const char *payload; /* SHA-256 of the body in hex; NULL: it is not signed */
	const char *region, *service;
	time_t now;
	unsigned seconds; /* lifetime, 1 to GCK_SIGV4_SECONDS_MAX */
};

/* Make the URL; free() it. -1: EINVAL, ENOMEM. */
GCK_MUST_CHECK int gck_sigv4_presign(const struct gck_sigv4_keys *k,
				     const struct gck_sigv4_request *r, char **url,
				     struct gck_error *err);

#endif
