/* SPDX-License-Identifier: Apache-2.0
 * A request on an open `s3:` backend, with its retries. */
#ifndef GCK_S3_REQUEST_H
#define GCK_S3_REQUEST_H

#include <semaphore.h>
#include <stdatomic.h>

#include "storage/base/backend.h"
#include "storage/s3/http.h"
#include "storage/s3/sign_request.h"
#include "storage/s3/xml.h"

/* One PUT carries at most this much; more is sent in parts of this size. */
#define GCK_S3_PART (16u << 20)

/* What is known of the server and CRC-32C. One object alone asks, and is sent again where the
 * server has none; objects that are sent meanwhile have an MD5. */
enum gck_s3_checksum { GCK_S3_UNKNOWN, GCK_S3_ASKED, GCK_S3_HAS_CRC32C, GCK_S3_NO_CRC32C };

struct gck_s3_store {
	struct gck_backend head;
	struct gck_sign_scope of;
	char *above, below[24]; /* of a key: before and after the owner's uid */
	/* Features that the server turned out to lack: they are not requested again. */
	atomic_bool no_condition;
	_Atomic enum gck_s3_checksum checksum;
	sem_t sent_with_md5; /* how many more uploads with an MD5 may run at once */
};

/* A request: what is signed, what is sent, where the answer goes. */
struct gck_s3_call {
	struct gck_sign_request sign;
	const void *body;
	size_t size;
	void *into; /* capacity bytes from offset on; NULL: into http.text */
	uint64_t offset;
	size_t capacity;
	/* The answer, and the server's own words if it refused. */
	struct gck_http http;
	const char *root; /* the root of its XML; NULL: it has none */
	struct gck_s3_error said;
};

/* Make the request, and repeat it, each time with a new signature and a longer pause: when the
 * connection fails, stays silent or is too slow, on 408, 409, 429 and 5xx, and for a 2xx that is
 * not S3's (an <Error>, XML with another root, no ETag of an object, a body after a removal);
 * once more when the signature is refused; without only_new or crc32c where the server answers
 * 501. 0: a 2xx came; gck_s3_end the call. -1: err names object, request, reason and remedy, and
 * there is nothing to end. ENOENT: no such object; ENODEV: no such bucket; EEXIST: only_new, and
 * the object exists; ENOTSUP: the server cannot; EACCES; EDQUOT; EBADMSG: the object is shorter
 * than offset + capacity; EIO, EPIPE, EPROTO, ETIMEDOUT: the retries failed too. */
GCK_MUST_CHECK int gck_s3_call(struct gck_s3_store *s, struct gck_s3_call *c,
			       struct gck_error *err);
void gck_s3_end(struct gck_s3_call *c);

/* A request that removes something; what does not exist counts as removed. */
int gck_s3_remove(struct gck_s3_store *s, const struct gck_sign_request *sign,
		  struct gck_error *err);

/* Put "<where>/<name>: <verb>: " in front of err's text. Returns -1. */
int gck_s3_fail_in(struct gck_s3_store *s, const struct gck_sign_request *r,
		   struct gck_error *err);

/* Milliseconds before the second attempt, doubled for each further one. Tests change it. */
extern unsigned gck_s3_pause;

#endif
