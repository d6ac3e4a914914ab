/* SPDX-License-Identifier: Apache-2.0
 * Dirty page tracking: which pages a rank has not written since an image of it was taken. The
 * kernel marks them, by userfaultfd's asynchronous write protection and PAGEMAP_SCAN (Linux 6.7;
 * doc/store.md, "What was not written").
 *
 * A page is marked when it is write-protected, while the rank is held and before the clone is
 * forked. It loses the mark when anybody writes it. So a page with a mark is as it was in the
 * image that was taken when marks were last set. The agent keeps the descriptor between two
 * checkpoints, together with the hash of that image's manifest. A capture takes both away, and
 * puts them back with the new hash once its image is written whole. If anything fails in between
 * there is no descriptor, or another hash, and everything is read. */
#ifndef GCK_DIRTY_PAGES_H
#define GCK_DIRTY_PAGES_H

#include <stdbool.h>

#include "shim/process/image/image.h"
#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

#define GCK_SPOILED_MAX 64

struct gck_dirty_tracker {
	int uffd;                  /* of the rank's memory; -1: no marks can be had */
	char base_hash[GCK_HASH_TEXT];    /* manifest of the image that they count from; "": of none */
	struct gck_ranges written; /* in whole page groups: without a mark before the clone, or unknown */
	struct gck_ranges since;   /* the same once the clone was there */
	uint64_t spoiled[GCK_SPOILED_MAX]; /* page groups that may differ in the clone */
	unsigned nspoiled;
};

/* Take the descriptor and its hash from the shelf (process.h). */
void gck_dirty_take(struct gck_dirty_tracker *m, const int tracker_fds[2]);

/* Put them back. The marks count from the image whose manifest hash is m->base_hash. */
void gck_dirty_leave(struct gck_dirty_tracker *m, const int tracker_fds[2]);

/* With the rank held: note which pages were written, and mark the pages of large mappings. */
void gck_dirty_protect(struct gck_dirty_tracker *m, const struct gck_target *t,
		   const struct gck_image *img);

/* Once the clone exists: note which pages were written meanwhile, by the helper for example. */
void gck_dirty_update(struct gck_dirty_tracker *m, const struct gck_target *t,
		      const struct gck_image *img);

/* The clone may have written at this address, so the page group's marks do not count. */
void gck_dirty_spoil(struct gck_dirty_tracker *m, uint64_t address);

/* Whether no page of a page group was written since the image of m->base_hash. */
bool gck_dirty_unwritten(const struct gck_dirty_tracker *m, uint64_t group);

/* Stop tracking: everything is read. */
void gck_dirty_drop(struct gck_dirty_tracker *m);

#endif
