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

/* Bytes of one PUT at most; larger documents are sent in parts of this size. */
#define GCK_S3_PART (16u << 20)

/* Does the server verify CRC-32C? The first object finds out, and is sent again if the server does
 * not. Objects that are sent meanwhile have an MD5. */
enum gck_s3_checksum { GCK_S3_UNKNOWN, GCK_S3_ASKED, GCK_S3_HAS_CRC32C, GCK_S3_NO_CRC32C };

struct gck_s3_store {
	struct gck_backend head;
	struct gck_sign_scope of;
	char *above, below[24]; /* the parts of a key before and after the owner's uid */
	/* Features that the server lacks are not requested again. */
	atomic_bool no_condition;
	_Atomic enum gck_s3_checksum checksum;
	sem_t sent_with_md5; /* how many more uploads with an MD5 may run at once */
};

/* A request: what is signed, what is sent, and the buffer for the answer. */
struct gck_s3_call {
	struct gck_sign_request sign;
	const void *body;
	size_t size;
	void *into; /* capacity bytes from offset on; NULL: into http.text */
	uint64_t offset;
	size_t capacity;
	/* The answer, and the server's message if it refused. */
	struct gck_http http;
	const char *root; /* the root of its XML; NULL: it has none */
	struct gck_s3_error said;
};

/* Make the request, with retries. Each retry has a new signature and follows a longer pause.
 * Retried are failed, silent and slow connections, the statuses 408, 409, 429 and 5xx, and a 2xx
 * that is not from S3 (an <Error>, XML with another root, an object without ETag, a removal with a
 * body). A refused signature is retried once. After a 501 the request is made without only_new or
 * crc32c.
 *
 * 0: a 2xx; call gck_s3_end. -1: err has object, request, reason and remedy; do not call
 * gck_s3_end. ENOENT: no such object; ENODEV: no such bucket; EEXIST: only_new is set and the
 * object exists; ENOTSUP: the server does not support it; EACCES; EDQUOT; EBADMSG: the object is
 * shorter than offset + capacity; EIO, EPIPE, EPROTO, ETIMEDOUT: the retries failed too. */
GCK_MUST_CHECK int gck_s3_call(struct gck_s3_store *s, struct gck_s3_call *c,
			       struct gck_error *err);
void gck_s3_end(struct gck_s3_call *c);

/* Make a request that removes something. 0 also if it does not exist. */
GCK_MUST_CHECK int gck_s3_remove(struct gck_s3_store *s, const struct gck_sign_request *sign,
				 struct gck_error *err);

/* Put "<where>/<name>: <verb>: " in front of err's text. Returns -1. */
int gck_s3_fail_in(struct gck_s3_store *s, const struct gck_sign_request *r,
		   struct gck_error *err);

/* Milliseconds before the second attempt, doubled for each further one. Tests change it. */
extern unsigned gck_s3_pause;

#endif
