/* SPDX-License-Identifier: Apache-2.0
 * A signer for storage/s3/signer.h and an unwrapper for storage/crypto/keyring.h that ask gpuckptd,
 * directly or through the agent. */
#ifndef GCK_SIGN_SIGNER_H
#define GCK_SIGN_SIGNER_H

#include <jansson.h>

#include "common/base/conf.h"

/* Send body and wait for its answer: a new reference, or NULL. EAGAIN: not connected now. */
typedef json_t *gck_sign_exchange(void *arg, const json_t *body, int timeout_ms,
				  struct gck_error *err);

struct gck_signer {
	gck_sign_exchange *exchange;
	void *arg;
	const struct gck_conf *conf;
	int limit_ms;   /* the longest wait for a coordinator that is away or cannot answer yet */
	json_int_t id;  /* of the last message */
};

/* Make it the signer of this process, with the settings of gpuckpt.conf that the store needs. s
 * must stay valid. */
void gck_signer_use(struct gck_signer *s);

/* For a process without an agent: a signer over a connection of its own, opened when needed. conf
 * must stay valid. */
void gck_signer_use_link(const struct gck_conf *conf, int limit_ms);

#endif
