/* SPDX-License-Identifier: Apache-2.0
 * The `s3:` backend's own struct (s3.c opens it), and a request on it with all that may go wrong
 * (request.c). */
#ifndef GCK_S3_H
#define GCK_S3_H

#include <semaphore.h>
#include <stdatomic.h>

#include "storage/base/backend.h"
#include "storage/s3/http.h"
#include "storage/s3/signer.h"
#include "storage/s3/xml.h"

/* One PUT carries so much; above it, in parts of this size. */
#define GCK_S3_PART (16u << 20)

/* What is known of the server and CRC-32C. One object alone asks, which is sent again where it has none; those
 * that go meanwhile have an MD5. */
enum gck_s3_checksum { GCK_S3_UNKNOWN, GCK_S3_ASKED, GCK_S3_HAS_CRC32C, GCK_S3_NO_CRC32C };

struct gck_s3_store {
	struct gck_backend head;
	struct gck_sign_scope of;
	char *above, below[24]; /* of a key: what comes before and after the owner's uid */
	/* What the server has turned out not to know: it is not asked again. */
	atomic_bool no_condition;
	_Atomic enum gck_s3_checksum checksum;
	sem_t sent_with_md5; /* how many more may be, at once */
};

/* A request: what is signed, what is sent, where the answer goes. */
struct gck_s3_call {
	struct gck_sign_request sign;
	const void *body;
	size_t size;
	void *into; /* of the room bytes from offset on; NULL: into http.text */
	uint64_t offset;
	size_t room;
	/* The answer, and the server's own words if it was a refusal. */
	struct gck_http http;
	const char *root; /* of its XML; NULL: there is none */
	struct gck_s3_error said;
};

/* Make it: again, each time with a new signature and later, when the connection fails, stays silent
 * or drips, on 408, 409, 429 and 5xx, and for a 2xx that is not S3's: an <Error>, XML of another root, no
 * ETag of an object, a body where something was removed; once more when the signature is refused; without
 * only_new or crc32c where the server says 501. 0: a 2xx came; gck_s3_end the call. -1: err names object,
 * request, reason and remedy, nothing is left to end. ENOENT: no such object; ENODEV: no such bucket;
 * EEXIST: only_new, and it is there; ENOTSUP: the server cannot; EACCES; EDQUOT; EBADMSG: the object is
 * shorter than offset + room; EIO, EPIPE, EPROTO, ETIMEDOUT: it did not get better. */
int gck_s3_call(struct gck_s3_store *s, struct gck_s3_call *c, struct gck_error *err);
void gck_s3_end(struct gck_s3_call *c);

/* A request that removes something. What is not there is removed. */
int gck_s3_remove(struct gck_s3_store *s, const struct gck_sign_request *sign, struct gck_error *err);

/* "<where>/<name>: <verb>: " in front of what err says. Returns -1. */
int gck_s3_fail_in(struct gck_s3_store *s, const struct gck_sign_request *r, struct gck_error *err);

/* Milliseconds before the second attempt; they double from then on. For tests to change. */
extern unsigned gck_s3_pause;

/* ---- the backend's operations by file ------------------------------------------------------ */

int gck_s3_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
		struct gck_error *err);
/* Abort the multipart uploads below a directory. */
int gck_s3_abort_below(struct gck_s3_store *s, const char *dir, struct gck_error *err);
/* A document that is larger than GCK_S3_PART. */
int gck_s3_put_parts(struct gck_s3_store *s, const char *name, const void *data, size_t size,
		     struct gck_error *err);
int gck_s3_size(struct gck_backend *b, const char *name, uint64_t *size, struct gck_error *err);

#endif
