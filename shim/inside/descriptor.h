/* SPDX-License-Identifier: Apache-2.0
 * A stand-in's descriptors in the program's table. The program does not know them, so it may close
 * one (closefrom) or put another file in its place. */
#ifndef GCK_INSIDE_DESCRIPTOR_H
#define GCK_INSIDE_DESCRIPTOR_H

#include <stdint.h>

/* Moves a descriptor to a number of 1000 or above, where programs have none, and returns that.
 * Returns fd itself if RLIMIT_NOFILE does not allow it. */
int gck_inside_move_away(int fd);

/* A socket's cookie, unique since the node's start; 0: fd is not a socket. */
uint64_t gck_inside_cookie(int fd);

#endif
