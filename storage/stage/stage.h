/* SPDX-License-Identifier: Apache-2.0
 * Staging: a backend above two others. Objects that are put lie on the node's disk alone until a flush
 * takes them to the store; objects that are read are looked for there first. Whatever the disk cannot
 * do goes directly to the store and from it. Documents, lengths, lists and removal are the store's. */
#ifndef GCK_STAGE_H
#define GCK_STAGE_H

#include "storage/store/internal.h"

/* Above near (a `file:` backend of the node) and the backend of s, both taken over. */
struct gck_backend *gck_stage_backend(struct gck_store *s, struct gck_backend *near,
				      struct gck_error *err);

/* Bytes that are yet to be uploaded. why: what the first object went directly to the store for; code 0:
 * none did. */
uint64_t gck_stage_pending_bytes(struct gck_backend *b, struct gck_error *why);

#endif
