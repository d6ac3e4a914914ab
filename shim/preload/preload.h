/* SPDX-License-Identifier: Apache-2.0
 * The preload's exports to the other parts of the shim, which may be in a process without it. */
#ifndef GCK_PRELOAD_H
#define GCK_PRELOAD_H

#include <stddef.h>

#include "shim/link.h"

/* Ask for a checkpoint and wait until it is done: gck_checkpoint() (all 0) or gck_checkpoint_all().
 * Results as in shim/user/gpuckpt.h; below 0, why gets the reason. libgpuckpt finds this function
 * by name. */
int gck_preload_checkpoint(int all, char *why, size_t size);

/* The rank's state, in the preload's data. Weak: NULL in a process without the preload. */
struct gck_shim_state *gck_preload_state(void) __attribute__((weak));

/* As execve(), for a stand-in that executes this program again: envp's LD_PRELOAD stays as it is in
 * a descendant of the rank, too. Weak: NULL in a process without the preload. */
int gck_preload_execute(const char *path, char *const *argv, char *const *envp)
	__attribute__((weak));

/* The name is the address sanitizer's. */
const char *__asan_default_options(void);

#endif
