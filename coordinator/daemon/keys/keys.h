/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd's keys. They are in this process alone, and in no message, log or error. */
#ifndef GCK_KEYS_H
#define GCK_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/conf.h"
#include "common/base/error.h"
#include "coordinator/core/model/state.h"
#include "storage/crypto/keyring.h"
#include "storage/s3/presign.h"

/* ---- secret.c: files with secrets ------------------------------------------------------------ */

#define GCK_SECRET_MAX 16384

struct gck_secret {
	char path[PATH_MAX]; /* "": there is none */
	bool credential;     /* it is systemd's copy */
	struct stat seen;    /* of the file as it was read */
};

/* The file that is configured (may be ""), else the systemd credential of that name if it is there. */
void gck_secret_find(struct gck_secret *s, const char *configured, const char *credential);

/* Its text. What is not the coordinator's alone is refused. The caller wipes text. */
int gck_secret_read(struct gck_secret *s, char text[GCK_SECRET_MAX], struct gck_error *err);

/* Is it another file than was read last, or looked at by this? */
bool gck_secret_changed(struct gck_secret *s);

/* ---- keys.c: the object store's keys --------------------------------------------------------- */

struct gck_keys {
	struct gck_secret file;       /* none: this site has no object store */
	char access[256], secret[256], token[4096];
	char endpoint[256];           /* as configured, or AWS's */
	struct gck_s3_server server;  /* the next two borrow from here and from the configuration */
	struct gck_sigv4_keys sigv4;
};

/* Read the file of S3KeyFile, or the systemd credential gpuckpt-s3. -1: there is an S3Store and no
 * good file. What is not the coordinator's alone is refused. */
int gck_keys_open(struct gck_keys *k, const struct gck_conf *c, struct gck_error *err);

/* Read it again if it has changed. On failure the former keys stay. */
int gck_keys_renew(struct gck_keys *k, struct gck_error *err);

/* ---- wrapping.c: the keys that wrap jobs' data keys ------------------------------------------- */

/* A wrapped key is text: "1:<id of the wrapping key>:<uid>:<job>:<sealed key in hex>". The seal binds what
 * stands before the last colon, so that no user can use another user's key. */

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
