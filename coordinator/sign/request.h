/* SPDX-License-Identifier: Apache-2.0
 * Requests for URLs and keys as JSON: "sign" and "signed", "unwrap" and "unwrapped" of
 * doc/protocol.md. */
#ifndef GCK_SIGN_JSON_H
#define GCK_SIGN_JSON_H

#include <jansson.h>

#include "storage/crypto/crypto.h"
#include "storage/s3/signer.h"

#define GCK_SIGN_MOST 16 /* requests in a message of a process; agents merge messages */

/* {"op":"sign", "id", "store", "cluster", "job", "step", "requests":[..]}; NULL without memory. */
json_t *gck_sign_pack(json_int_t id, const struct gck_sign_scope *of,
		      const struct gck_sign_request *v, size_t n);

/* Read one of the requests; texts are borrowed from it. -1: EINVAL. */
int gck_sign_unpack(const json_t *one, struct gck_sign_request *r, struct gck_error *err)
	GCK_MUST_CHECK;

/* Take the URLs of a "signed" that answers n requests, and their lifetime. On failure none is set,
 * and err has the reason of the first refusal. EAGAIN: try again later. */
int gck_sign_take(const json_t *answer, size_t n, char **urls, unsigned *seconds,
		  struct gck_error *err) GCK_MUST_CHECK;

/* {"op":"unwrap", "id", "key"}; NULL without memory. */
json_t *gck_unwrap_pack(json_int_t id, const char *wrapped);

/* Take the key of an "unwrapped"; -1 with the reason if it has none. */
int gck_unwrap_take(const json_t *answer, unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err)
	GCK_MUST_CHECK;

/* Free URLs that were taken. */
void gck_sign_drop(char **urls, size_t n);

#endif
