/* SPDX-License-Identifier: Apache-2.0
 * Asking the process's signer (storage/s3/signer.h), from any thread. */
#ifndef GCK_SIGN_H
#define GCK_SIGN_H

#include "storage/s3/signer.h"

struct gck_signed {
	char *url, *ca; /* ca: NULL: the system's */
};

bool gck_sign_ready(void);        /* gck_store_signer has been called */
unsigned gck_sign_request_timeout(void); /* gck_store_request_timeout */
void gck_sign_report_retry(const struct gck_error *why); /* tell gck_store_on_retry's */

/* One request; gck_signed_free it. of is the same pointer for all requests of an open store. */
int gck_sign(const struct gck_sign_scope *of, const struct gck_sign_request *r,
	     struct gck_signed *out, struct gck_error *err);
void gck_signed_free(struct gck_signed *s);

#endif
