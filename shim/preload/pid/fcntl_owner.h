/* SPDX-License-Identifier: Apache-2.0
 * The four commands of fcntl that name a process or thread, for a rank that was restored. */
#ifndef GCK_PRELOAD_FCNTL_OWNER_H
#define GCK_PRELOAD_FCNTL_OWNER_H

#include <stdbool.h>

bool gck_fcntl_has_owner(int command);

/* The raw system call's result. */
long gck_fcntl_owner(int fd, int command, long arg);

#endif
