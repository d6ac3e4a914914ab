/* SPDX-License-Identifier: Apache-2.0
 * Becoming a daemon. The parent waits until the child has started completely, or failed, and exits
 * accordingly: whoever started it knows. */
#ifndef GCK_BACKGROUND_H
#define GCK_BACKGROUND_H

#include "common/base/error.h"

/* Fork; the parent never returns from this. The child keeps stderr until gck_background_done. */
int gck_background_begin(struct gck_error *err);

/* Start-up is complete: let the parent exit, and leave the terminal. */
int gck_background_done(struct gck_error *err);

#endif
