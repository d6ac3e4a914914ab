/* SPDX-License-Identifier: Apache-2.0
 * Those who wait for an operation. */
#ifndef GCK_WAITER_H
#define GCK_WAITER_H

#include "coordinator/core/operations/operation.h"

int gck_waiter_add(struct gck_waiter **list, const struct gck_waiter *waiter);
void gck_waiter_remove(struct gck_waiter **list, const void *arg);
void gck_waiter_free_all(struct gck_waiter **list);

/* Tell all how far a step's checkpoint is. */
void gck_waiter_tell_phase(const struct gck_waiter *list, const struct gck_step *step);

/* Tell all, or those who wait for the beginning only, that it ended, and forget them. */
void gck_waiter_end_all(struct gck_waiter **list, const char *error, const json_t *steps);
void gck_waiter_end_hasty(struct gck_waiter **list, const json_t *steps);

#endif
