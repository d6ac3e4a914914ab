/* SPDX-License-Identifier: Apache-2.0
 * A signer for storage/s3/signer.h that asks somebody: its agent, or gpuckptd itself; and an
 * unwrapper for storage/crypto/keyring.h that does. */
#ifndef GCK_SIGN_SIGNER_H
#define GCK_SIGN_SIGNER_H

#include <jansson.h>

#include "common/base/conf.h"

/* Say body and wait for what answers it: a new reference, or NULL. EAGAIN: nobody is there now. */
typedef json_t *gck_sign_exchange(void *arg, const json_t *body, int timeout_ms,
				  struct gck_error *err);

struct gck_signer {
	gck_sign_exchange *exchange;
	void *arg;
	const struct gck_conf *conf;
	int limit_ms;   /* how long a coordinator that is away, or does not know yet, is waited for */
	json_int_t id;  /* of the last message */
};

/* Make it this process's, with all of gpuckpt.conf that the store needs. s stays. */
void gck_signer_use(struct gck_signer *s);

/* For a process that has no agent: a signer over a connection of its own, made when it is needed.
 * conf stays. */
void gck_signer_use_link(const struct gck_conf *conf, int limit_ms);

#endif
