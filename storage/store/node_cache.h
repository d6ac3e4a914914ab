/* SPDX-License-Identifier: Apache-2.0
 * Objects that several processes of a node want from a store that is far away: one of them fetches a piece
 * of 4 MiB into memory that all of them have; the others wait for it. At most 16 are there at a time, the
 * oldest leaves for the next. A process that dies, or whose request fails, leaves the piece to the others;
 * and whoever finds no room fetches for himself. What is in the pool is as it is in the store. */
#ifndef GCK_NODE_CACHE_H
#define GCK_NODE_CACHE_H

#include "storage/store/store.h"

/* A pool: a descriptor for processes that are forked from this one; it is gone with the last of them. All
 * use it for the same store. -1. */
int gck_node_cache_create(struct gck_error *err);

/* Readers that are opened from now on use it, where the store is one that it is worth while for. The
 * descriptor stays open as long as the store. Without memory they do without. */
void gck_store_use_node_cache(struct gck_store *s, int fd);

/* ---- within storage/ ----------------------------------------------------------------------- */

struct gck_node_cache;

/* Like the backend's get, of an object that others may want too, of which the first `end` bytes are known to
 * be there. */
int gck_node_cache_get(struct gck_store *s, const char *name, uint64_t end, uint64_t offset, void *data,
		 size_t size, struct gck_error *err);
void gck_node_cache_close(struct gck_node_cache *p); /* NULL: nothing */

#endif
