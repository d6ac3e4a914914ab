/* SPDX-License-Identifier: Apache-2.0
 * The epoch of a coordinator. Every start has a higher one than all before it, and an agent refuses
 * a coordinator whose epoch is lower than the last that it obeyed. */
#ifndef GCK_EPOCH_H
#define GCK_EPOCH_H

#include "coordinator/core/model/core.h"

/* A coordinator starts: the state was read back from its journal, which is current or may lack
 * records. It has the next epoch; if neither journal nor clock tells the one before, the agents
 * do. */
void gck_epoch_begin(struct gck_core *core, bool current);

/* An agent of host registers, and tells the epoch that it obeyed and how long ago. If that was
 * before this start, which is up_ms ago, this coordinator is the younger one: its journal was lost
 * or is an older copy, and the clock was ahead before. Its epoch goes above the agent's. */
void gck_epoch_told(struct gck_core *core, const json_t *registration, int64_t up_ms,
		    const char *host);

#endif
