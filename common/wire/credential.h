/* SPDX-License-Identifier: Apache-2.0
 * munge credentials: a text that proves who made it. Used by wire.c. */
#ifndef GCK_CREDENTIAL_H
#define GCK_CREDENTIAL_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Make a credential with this payload that only reader (GCK_WIRE_ANY_UID: anybody) can open.
 * socket: munged's, NULL or "" is the default. The caller frees it. */
char *gck_credential_encode(const char *socket, uid_t reader, const char *payload,
			  struct gck_error *err);

/* Open a credential of size bytes (not NUL-terminated): the payload, NUL-terminated, to be freed by
 * the caller, its length, and the uid that made it. */
char *gck_credential_decode(const char *socket, const char *text, size_t size, size_t *length,
			  uid_t *uid, struct gck_error *err);

#endif
