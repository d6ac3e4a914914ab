/* SPDX-License-Identifier: Apache-2.0
 * Files with secrets that are gpuckptd's alone. Their contents are in no message, log or error. */
#ifndef GCK_SECRET_H
#define GCK_SECRET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/error.h"

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

#endif
