/* SPDX-License-Identifier: Apache-2.0
 * Age and quota of images (KeepAge=, Quota=): which commits are forgotten. removal.h has their
 * removal from stores. */
#ifndef GCK_EXPIRE_H
#define GCK_EXPIRE_H

#include "coordinator/core/model/core.h"

/* Forget commits that are too old, and the oldest of users above their quota; never a needed
 * one. */
void gck_expire(struct gck_core *core);
void gck_expire_user(struct gck_core *core, uid_t uid);

/* -1, EDQUOT, if the user's images and `more` bytes exceed the quota. After gck_expire_user only
 * needed images count. */
int gck_quota_check(const struct gck_core *core, uid_t uid, uint64_t more, struct gck_error *err)
	GCK_MUST_CHECK;

#endif
