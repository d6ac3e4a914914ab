/* SPDX-License-Identifier: Apache-2.0
 * Signs of life for agents whose ranks are held for long: `hold`, a few times in `timeout`. Without
 * them an agent lets its ranks go, whether this coordinator died or hangs. */
#ifndef GCK_HOLD_KEEPALIVE_H
#define GCK_HOLD_KEEPALIVE_H

#include "coordinator/core/model/core.h"

/* The step came into another phase. */
void gck_hold_arm(struct gck_core *core, struct gck_step *step);

/* Its timer went off. */
void gck_hold_due(struct gck_core *core, struct gck_step *step);

#endif
