/* SPDX-License-Identifier: Apache-2.0
 * Who owns a file. In a user namespace that maps only one user, the kernel tells nothing of others:
 * such a process asks one outside. Functions return -1 with errno. */
#ifndef GCK_OWNER_H
#define GCK_OWNER_H

#include <sys/stat.h>

#include "common/base/error.h"

/* As stat(2) and its kin, with the owner as it is outside. */
int gck_owner_fstat(int fd, struct stat *st) GCK_MUST_CHECK;
int gck_owner_fstatat(int dir, const char *path, struct stat *st, int flags) GCK_MUST_CHECK;

/* From now on this process asks at the other end of this SEQPACKET socket. */
void gck_owner_ask(int socket);

/* Answer, until nobody has the other end any more. */
void gck_owner_serve(int socket);

#endif
