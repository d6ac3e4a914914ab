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
	char path[PATH_MAX]; /* "": no file */
	bool credential;     /* the file is systemd's copy */
	struct stat seen;    /* the file when it was last read */
};

/* Find the configured file (may be ""), else the systemd credential of that name if it exists. */
void gck_secret_find(struct gck_secret *s, const char *configured, const char *credential);

/* Read the file. It is refused unless the coordinator alone has access. The caller wipes text. */
int gck_secret_read(struct gck_secret *s, char text[GCK_SECRET_MAX], struct gck_error *err)
	GCK_MUST_CHECK;

/* Has the file changed since it was last read, or since the last call? */
bool gck_secret_changed(struct gck_secret *s);

/* ---- keys.c: the object store's keys --------------------------------------------------------- */

struct gck_keys {
	struct gck_secret file;       /* no path: this site has no object store */
	char access[256], secret[256], token[4096];
	char endpoint[GCK_S3_ENDPOINT_MAX]; /* as configured, or AWS's */
	struct gck_s3_server server;  /* it and sigv4 borrow from this and from gck_conf */
	struct gck_sigv4_keys sigv4;
};

/* Read the file of S3KeyFile, or the systemd credential gpuckpt-s3. -1 if there is an S3Store and
 * no valid file. */
int gck_keys_open(struct gck_keys *k, const struct gck_conf *c, struct gck_error *err)
	GCK_MUST_CHECK;

/* Read the file again if it has changed. On failure the former keys stay. */
int gck_keys_renew(struct gck_keys *k, struct gck_error *err) GCK_MUST_CHECK;

/* ---- wrapping.c: the keys that wrap jobs' data keys ------------------------------------------ */

/* A wrapped key is text: "1:<id of the wrapping key>:<uid>:<job>:<sealed key in hex>". The seal
 * binds what stands before the last colon, so that no user can use another user's key. */

#define GCK_WRAPPING_MAX 32   /* keys in the file */
#define GCK_WRAPPING_ID 17    /* a key's id, which does not reveal it: 16 hex digits and the NUL */

struct gck_wrapping {
	struct gck_secret file; /* no path: images cannot be encrypted here */
	size_t n;               /* the first wraps, all unwrap */
	struct {
		char id[GCK_WRAPPING_ID];
		unsigned char key[GCK_CRYPTO_KEY];
	} v[GCK_WRAPPING_MAX];
};

/* Read the file of EncryptionKeyFile, or the systemd credential gpuckpt-encryption. 0 if neither
 * exists; -1 if the file is invalid. */
int gck_wrapping_open(struct gck_wrapping *w, const struct gck_conf *c, struct gck_error *err)
	GCK_MUST_CHECK;

/* Read the file again if it has changed. If it is invalid, that is logged and the former keys
 * stay. */
void gck_wrapping_renew(struct gck_wrapping *w);

/* For `can_wrap` and `wrap` of core.h. A key that can no longer be unwrapped is replaced by a new
 * one. */
int gck_wrapping_able(const struct gck_wrapping *w, struct gck_error *err) GCK_MUST_CHECK;
int gck_wrapping_wrap(const struct gck_wrapping *w, const struct gck_job *job,
		      char out[GCK_WRAPPED_MAX], struct gck_error *err) GCK_MUST_CHECK;

/* Unwrap a data key for this user. EACCES: it belongs to another user; ENOKEY: its wrapping key is
 * not in the file; EBADMSG, EINVAL: it is not a wrapped key. */
int gck_wrapping_unwrap(const struct gck_wrapping *w, const char *wrapped, uid_t uid,
			unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err) GCK_MUST_CHECK;

#endif
