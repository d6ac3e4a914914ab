/* SPDX-License-Identifier: Apache-2.0
 * Dirty page tracking: which pages a rank has not written since an image of it was taken. The
 * kernel tracks them by userfaultfd's asynchronous write protection and PAGEMAP_SCAN (Linux 6.7;
 * doc/store.md, "What was not written").
 *
 * Pages are write-protected while the rank is held, before the clone is forked. Any write lifts a
 * page's protection. So a protected page is as it was in the image for which pages were last
 * protected. Between two checkpoints the agent keeps the descriptor and the hash of that image's
 * manifest. A capture takes both, and returns them with the new hash once its image is complete. If
 * anything fails in between, there is no descriptor, or another hash, and all pages are read. */
#ifndef GCK_DIRTY_PAGES_H
#define GCK_DIRTY_PAGES_H

#include <stdbool.h>

#include "shim/process/image/image.h"
#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

#define GCK_SPOILED_MAX 64

struct gck_dirty_tracker {
	int uffd;                  /* of the rank's memory; -1: tracking is not possible */
	char base_hash[GCK_HASH_TEXT];    /* the manifest of the image that it counts from; "":
					   * none */
	struct gck_ranges written; /* whole page groups: dirty before the clone, or unknown */
	struct gck_ranges since;   /* whole page groups: dirty once the clone existed */
	struct gck_ranges looked;  /* whole page groups: dirty, or unknown, when a look at a sample
				    * of pages protected some of them */
	uint64_t spoiled[GCK_SPOILED_MAX]; /* page groups that the clone may have written */
	unsigned nspoiled;
};

/* Receive the descriptor and its hash (process.h). */
void gck_dirty_take(struct gck_dirty_tracker *m, const int tracker_fds[2]);

/* Return them. The protection counts from the image whose manifest has the hash m->base_hash. */
void gck_dirty_leave(struct gck_dirty_tracker *m, const int tracker_fds[2]);

/* Whether tracking is possible. Call it with the rank held if there was no tracker yet. */
bool gck_dirty_possible(struct gck_dirty_tracker *m, const struct gck_target *t);

/* Whether the pages of this mapping are tracked. */
bool gck_dirty_tracks(const struct gck_map *m);

/* While the rank runs: track a mapping's writes from now on. False: that is not possible, or the
 * mapping is gone, or tracking was given up. */
bool gck_dirty_register(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map);

/* Protect a page of such a mapping, unless it is part of a huge one. If it was dirty, its page
 * group counts as dirty from now on. False: the mapping is gone, or tracking was given up. */
bool gck_dirty_sample(struct gck_dirty_tracker *m, int pagemap, uint64_t page);

/* Whether such a page was written since. */
bool gck_dirty_sample_written(int pagemap, uint64_t page);

/* With the rank held: note which pages are dirty, and protect the pages of large mappings. copied:
 * ranges of whole page groups that are read in any case, and not protected. */
void gck_dirty_protect(struct gck_dirty_tracker *m, const struct gck_target *t,
		       const struct gck_image *img, const struct gck_ranges *copied);

/* Once the clone exists: note which pages were written meanwhile, for example by the helper. */
void gck_dirty_update(struct gck_dirty_tracker *m, const struct gck_target *t,
		      const struct gck_image *img);

/* The clone may have written at this address: count its page group as dirty. */
void gck_dirty_spoil(struct gck_dirty_tracker *m, uint64_t address);

/* Whether no page of the group was written since the image of m->base_hash. */
bool gck_dirty_unwritten(const struct gck_dirty_tracker *m, uint64_t group);

/* Stop tracking: all pages are read. */
void gck_dirty_drop(struct gck_dirty_tracker *m);

#endif
