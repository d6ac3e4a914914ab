/* SPDX-License-Identifier: Apache-2.0
 * The keys that jobs' data keys are wrapped by: gpuckptd's alone (secret.h).
 *
 * A wrapped key is text: "1:<id of the wrapping key>:<uid>:<job>:<sealed key in hex>". What is before the
 * last colon is bound to what is sealed, so that nobody makes another user's key his own. */
#ifndef GCK_WRAPPING_H
#define GCK_WRAPPING_H

#include "common/base/conf.h"
#include "coordinator/core/model/state.h"
#include "coordinator/daemon/keys/secret.h"
#include "storage/crypto/keyring.h"

#define GCK_WRAPPING_MAX 32   /* keys in the file */
#define GCK_WRAPPING_ID 17    /* 16 hex digits and the NUL; of a key, and telling nothing about it */

struct gck_wrapping {
	struct gck_secret file; /* none: images cannot be encrypted here */
	size_t n;               /* the first wraps, all unwrap */
	struct {
		char id[GCK_WRAPPING_ID];
		unsigned char key[GCK_CRYPTO_KEY];
	} v[GCK_WRAPPING_MAX];
};

/* Read the file of EncryptionKeyFile, or the systemd credential gpuckpt-encryption; neither is no failure.
 * -1: it is there and not good. */
int gck_wrapping_open(struct gck_wrapping *w, const struct gck_conf *c, struct gck_error *err);

/* Read it again if it has changed. What is not good is logged, and the former keys stay. */
void gck_wrapping_renew(struct gck_wrapping *w);

/* As `can_wrap` and `wrap` in core.h. A key that cannot be unwrapped any more is followed by a new one. */
int gck_wrapping_able(const struct gck_wrapping *w, struct gck_error *err);
int gck_wrapping_wrap(const struct gck_wrapping *w, const struct gck_job *job,
		      char out[GCK_WRAPPED_MAX], struct gck_error *err);

/* The data key, for this user. EACCES: it is another's; ENOKEY: the key that wraps it is not in the file;
 * EBADMSG, EINVAL: it is none. */
int gck_wrapping_unwrap(const struct gck_wrapping *w, const char *wrapped, uid_t uid,
			unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err);

#endif
