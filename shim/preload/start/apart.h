/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GCK_PRELOAD_APART_H
#define GCK_PRELOAD_APART_H

#include <stdint.h>

/* In a task that waits for its restore: go on as a process with this number in a PID namespace,
 * and a user namespace if the user is not root. 0: this is that process; its link is closed. It has
 * the task's namespaces besides, its process group if it led one, and all capabilities there, which
 * the restorer takes from it. -errno: there is none, and this is still the task.
 * above: what is made there gets higher numbers. pid_variable: the value of GPUCKPT_PID in the
 * environment. */
long gck_apart(int fd, int32_t number, uint32_t above, char *pid_variable);

#endif
