/* SPDX-License-Identifier: Apache-2.0
 * What an answer that is no success means. Used by request.c. */
#ifndef GCK_REFUSAL_H
#define GCK_REFUSAL_H

#include "storage/s3/http.h"
#include "storage/s3/xml.h"

enum gck_refusal {
	GCK_REFUSAL_NONE,   /* a success */
	GCK_REFUSAL_LATER,  /* the same again may succeed */
	GCK_REFUSAL_SIGNED, /* the signature was refused: a new one may do */
	GCK_REFUSAL_UNKNOWN, /* the server does not know a header or a request */
	GCK_REFUSAL_FINAL,
};

/* said: of the answer's body. */
enum gck_refusal gck_refusal_of(const struct gck_http *h, const struct gck_s3_error *said);

/* err: what the server said and what to do about it. Returns -1. */
int gck_refusal_fail(const struct gck_http *h, const struct gck_s3_error *said,
		     struct gck_error *err);

#endif
