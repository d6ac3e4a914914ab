/* SPDX-License-Identifier: Apache-2.0
 * A task whose program takes no preload (coordinator/parent). Independent of SPANK. Functions
 * return -1 if the task is to be left as it is. */
#ifndef GCK_SPANK_PARENT_H
#define GCK_SPANK_PARENT_H

#include <limits.h>

/* Where gpuckpt-parent is: beside the agent. */
int gck_parent_path(const char *agent_path, char path[PATH_MAX]);

/* Find a program that needs it. list: the task's PATH. */
int gck_parent_needed(const char *name, const char *list, char program[PATH_MAX]);

#endif
