/* SPDX-License-Identifier: Apache-2.0
 * Barriers of the grid, as cooperative groups have them (grid.sync). The driver gives a grid that
 * is launched cooperatively a workspace, whose address is in %envreg1 (its upper half) and
 * %envreg2. One thread of each block adds to a word of it, and reads it until the last one has
 * added. A launch that may leave has a workspace in its records instead, which has that word
 * alone. */
#ifndef GCK_KERNELS_GRID_H
#define GCK_KERNELS_GRID_H

#include "shim/kernels/flow/flow.h"

/* Whether a statement reads a half of the workspace's address, and does nothing else: it gets the
 * trait GCK_GRID. */
bool gck_grid_is(const struct gck_ptx *ptx, const struct gck_ptx_statement *s);

/* -1 and err, with file and line, if anything but such a barrier is done with the workspace. */
int gck_grid_check(const struct gck_flow *flow, struct gck_error *err) GCK_MUST_CHECK;

#endif
