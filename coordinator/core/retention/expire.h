/* SPDX-License-Identifier: Apache-2.0
 * Age and quota of images (KeepAge=, Quota=): which commits are forgotten. What is then to be removed from
 * stores is orders.h's. */
#ifndef GCK_EXPIRE_H
#define GCK_EXPIRE_H

#include "coordinator/core/model/core.h"

/* Forget what is too old, and of users that have too much the oldest, but nothing that is needed. */
void gck_expire(struct gck_core *core);
void gck_expire_user(struct gck_core *core, uid_t uid);

/* -1, EDQUOT: what the user has, after gck_expire_user what is needed of it, and more bytes beside it are
 * above the quota. */
int gck_quota_check(const struct gck_core *core, uid_t uid, uint64_t more, struct gck_error *err);

#endif
