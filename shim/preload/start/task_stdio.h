/* SPDX-License-Identifier: Apache-2.0
 * The descriptors 0 to 2 that the task was given. */
#ifndef GCK_PRELOAD_TASK_STDIO_H
#define GCK_PRELOAD_TASK_STDIO_H

#include <stdbool.h>
#include <stdint.h>

/* note: the value of GPUCKPT_STDIO in the environment (NULL: not set), which is filled in if it is
 * blank. stdio: device and inode of each; 0, 0 is closed. */
void gck_stdio_find(char *note, uint64_t stdio[3][2]);

#endif
