/* SPDX-License-Identifier: Apache-2.0
 * Descriptors of a stand-in's own in the program's table, where the program knows nothing of them:
 * it may close one (closefrom), or put another file in its place. */
#ifndef GCK_INSIDE_DESCRIPTOR_H
#define GCK_INSIDE_DESCRIPTOR_H

#include <stdint.h>

/* The same under a number out of the program's way, 1000 or above where RLIMIT_NOFILE allows it;
 * fd is closed then. */
int gck_inside_move_away(int fd);

/* What tells a socket from all others that there were since the node's start; 0: fd is none. */
uint64_t gck_inside_cookie(int fd);

#endif
