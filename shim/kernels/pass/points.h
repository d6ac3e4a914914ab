/* SPDX-License-Identifier: Apache-2.0
 * Points in the kernels of a PTX module: places where a running kernel can be left and gone on
 * with. A kernel with points gets the variable NAME$ckpt and a second body, for a launch that goes
 * on (doc/kernels.md). Everything else stays as it is. */
#ifndef GCK_KERNELS_POINTS_H
#define GCK_KERNELS_POINTS_H

#include <stdio.h>

#include "shim/kernels/ptx/ptx.h"

#define GCK_POINTS_AUTO "auto" /* all kernels */

/* Writes the module to out, with its marks, and with points of its own in the kernels that are
 * automatic: GCK_POINTS_AUTO, or names with commas between them; NULL: none. -1 and err, with file
 * and line, for a mark that cannot be honoured; out is then worthless. A kernel without marks that
 * cannot have points stays as it is, and a line in notes (NULL: none) says why. */
int gck_points_write(const struct gck_ptx *ptx, const char *automatic, FILE *out, FILE *notes,
		     struct gck_error *err) GCK_MUST_CHECK;

#endif
