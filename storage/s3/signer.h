/* SPDX-License-Identifier: Apache-2.0
 * The process's signer. A process that works on an s3: store has no keys; it asks a signer for
 * presigned URLs, each for one request on a name of one step. In the agent, its workers and the CLI
 * the signer is gpuckptd behind a connection; in gpuckptd and in tests it is gck_s3_presign. */
#ifndef GCK_SIGNER_H
#define GCK_SIGNER_H

#include <time.h>

#include "storage/s3/sign_request.h"

/* Sign n requests. The caller frees urls[i]; on failure none is set. *expires: when the first of
 * them expires. *ca: the path of the file with the certificates for checking the server's,
 * free()d by the caller; NULL: the system's. Called by one thread at a time. */
typedef int gck_sign_fn(void *arg, const struct gck_sign_scope *of,
			const struct gck_sign_request *v,
			size_t n, char **urls, time_t *expires, char **ca, struct gck_error *err);

/* Set the process's signer, before the first gck_store_open of an s3:// URL. */
void gck_store_signer(gck_sign_fn *fn, void *arg);

/* Set the seconds without a transferred byte after which a request is abandoned and retried
 * (30). */
void gck_store_request_timeout(unsigned seconds);

/* Called from any thread for each request that is retried, with the reason. */
typedef void gck_retry_fn(void *arg, const struct gck_error *why);
void gck_store_on_retry(gck_retry_fn *fn, void *arg);

/* ---- within storage/s3, from any thread ----------------------------------------------------- */

struct gck_signed {
	char *url, *ca; /* ca: NULL: the system's */
};

bool gck_sign_ready(void);               /* gck_store_signer was called */
unsigned gck_sign_request_timeout(void); /* gck_store_request_timeout's */
void gck_sign_report_retry(const struct gck_error *why); /* call gck_store_on_retry's function */

/* Sign one request; gck_signed_free it. of is the same pointer for all requests of an open
 * store. */
GCK_MUST_CHECK int gck_sign(const struct gck_sign_scope *of, const struct gck_sign_request *r,
			    struct gck_signed *out, struct gck_error *err);
void gck_signed_free(struct gck_signed *s);

#endif
