/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints by the step's interval=. */
#ifndef GCK_INTERVAL_H
#define GCK_INTERVAL_H

#include "coordinator/core/model/core.h"

/* (Re)start the interval of an idle step; after failures the next try comes sooner at first, then
 * later and later, and never later than the interval. */
void gck_interval_arm(struct gck_core *core, struct gck_step *step);

/* The interval's time is up. */
void gck_interval_due(struct gck_core *core, struct gck_step *step);

#endif
