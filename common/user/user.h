/* SPDX-License-Identifier: Apache-2.0
 * Users by name, for processes that may wait for a directory service: not gpuckptd, nor a rank. */
#ifndef GCK_USER_H
#define GCK_USER_H

#include <sys/types.h>

#include "common/base/error.h"

#define GCK_USER_MAX 64

/* A user's name for messages: "alice", or "user 1234" if that has none. Returns name. */
const char *gck_user_name(uid_t uid, char name[GCK_USER_MAX]);

/* The uid of a name or of a decimal number. -1: there is no such user. */
GCK_MUST_CHECK int gck_user_id(const char *text, uid_t *uid);

#endif
