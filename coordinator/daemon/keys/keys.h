/* SPDX-License-Identifier: Apache-2.0
 * The object store's keys: gpuckptd's alone. They are in this process, and in no message, log or
 * error. */
#ifndef GCK_KEYS_H
#define GCK_KEYS_H

#include "common/base/conf.h"
#include "coordinator/daemon/keys/secret.h"
#include "storage/s3/presign.h"

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

#endif
