/* SPDX-License-Identifier: Apache-2.0
 * The rank's struct gck_shim_state (shim/link.h): filled by the constructor, kept by the helper and
 * the interposed functions, rewritten by a restorer. */
#ifndef GCK_PRELOAD_STATE_H
#define GCK_PRELOAD_STATE_H

#include "shim/link.h"

extern struct gck_shim_state gck_state;

#endif
