/* SPDX-License-Identifier: Apache-2.0
 * munge credentials: texts that prove which user made them. Used by wire.c. */
#ifndef GCK_CREDENTIAL_H
#define GCK_CREDENTIAL_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Make a credential with this payload that only reader (GCK_WIRE_ANY_UID: any user) can open.
 * socket: munged's; NULL or "": the default. free() the result. */
GCK_MUST_CHECK char *gck_credential_encode(const char *socket, uid_t reader, const char *payload,
					   struct gck_error *err);

/* Open a credential of size bytes (not NUL-terminated). Returns the payload with a NUL behind it,
 * free() it; *length and *uid are its length and the user that made the credential. */
GCK_MUST_CHECK char *gck_credential_decode(const char *socket, const char *text, size_t size,
					   size_t *length, uid_t *uid, struct gck_error *err);

#endif
