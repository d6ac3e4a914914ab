/* SPDX-License-Identifier: Apache-2.0
 * Removal of commits and of the objects that no kept commit refers to. */
#ifndef GCK_RETENTION_H
#define GCK_RETENTION_H

#include <jansson.h>

#include "storage/base/open_store.h"

/* Remove every commit below busy except those in keep, then everything that no kept commit refers
 * to. busy is the lowest sequence number that runs or may still start: the last one assigned plus
 * one when nothing runs. Its content and that of later ones are not touched. A kept commit that
 * cannot be read is an error; by then only commits have been removed. */
GCK_MUST_CHECK int gck_store_prune(struct gck_store *s, const uint32_t *keep, size_t nkeep,
				   uint32_t busy, struct gck_error *err);

/* The same with keep as a JSON array of numbers. */
GCK_MUST_CHECK int gck_store_prune_listed(struct gck_store *s, const json_t *keep, uint32_t busy,
					  struct gck_error *err);

/* Remove the manifests, temporary files and objects of an aborted checkpoint. */
GCK_MUST_CHECK int gck_store_discard(struct gck_store *s, uint32_t seq, const char *nonce,
				     struct gck_error *err);

#endif
