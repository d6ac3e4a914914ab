/* SPDX-License-Identifier: Apache-2.0
 * A cache of objects that several processes of a node read from a remote store. One of them reads a
 * block of 4 MiB into memory that all of them map; the others wait for it. The cache has 16 blocks;
 * the least recently used one is replaced first. When a process dies or its request fails, another
 * one reads the block; a process that finds no free block reads for itself. The bytes in the cache
 * are those in the store. */
#ifndef GCK_NODE_CACHE_H
#define GCK_NODE_CACHE_H

#include "storage/base/open_store.h"

/* Create a cache: a descriptor for processes that are forked from this one. It disappears with the
 * last of them. All of them use it for the same store. -1 on failure. */
GCK_MUST_CHECK int gck_node_cache_create(struct gck_error *err);

/* Let readers that are opened from now on use the cache, if the store is remote. The descriptor
 * stays open as long as the store. Without memory the readers do without the cache. */
void gck_store_use_node_cache(struct gck_store *s, int fd);

/* ---- within storage/ ------------------------------------------------------------------------ */

/* As the backend's get, for an object that other processes may read too. Its first `end` bytes are
 * known to exist. */
GCK_MUST_CHECK int gck_node_cache_get(struct gck_store *s, const char *name, uint64_t end,
				      uint64_t offset, void *data, size_t size,
				      struct gck_error *err);
void gck_node_cache_close(struct gck_node_cache *c); /* NULL is allowed */

#endif
