/* SPDX-License-Identifier: Apache-2.0
 * The rank's struct gck_shim_state (shim/link.h). The constructor fills it, the helper and the
 * interposed functions keep it up to date, a restorer rewrites it. */
#ifndef GCK_PRELOAD_STATE_H
#define GCK_PRELOAD_STATE_H

#include "shim/link.h"

extern struct gck_shim_state gck_state;

/* Of functions that run at the start of each process, or in each child: the linker puts them beside
 * each other, so that they take few pages. */
#define GCK_EACH __attribute__((hot))

#endif
