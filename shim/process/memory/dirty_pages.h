/* SPDX-License-Identifier: Apache-2.0
 * Which pages a rank has not written since an image of it was taken: the kernel marks them, by
 * userfaultfd's asynchronous write protection and PAGEMAP_SCAN (Linux 6.7; doc/store.md,
 * "What was not written").
 *
 * A page is marked when it is protected, while the rank is held and before the clone is forked, and
 * loses the mark when anybody writes it. So a page with a mark is as it was in the image that was
 * taken when marks were last set. Which image that is lies with the descriptor, which the agent has
 * between two checkpoints, as the hash of its manifest. Whoever takes the descriptor takes that away,
 * and says it anew when an image is written whole: whatever goes wrong in between, there is no
 * descriptor or another hash, and everything is read. */
#ifndef GCK_DIRTY_PAGES_H
#define GCK_DIRTY_PAGES_H

#include <stdbool.h>

#include "shim/process/image/image.h"
#include "shim/process/proc/pages.h"
#include "shim/process/rank/target.h"

#define GCK_SPOILED_MAX 64

struct gck_marks {
	int uffd;                  /* of the rank's memory; -1: no marks can be had */
	char of[GCK_HASH_TEXT];    /* manifest of the image that they count from; "": of none */
	struct gck_ranges written; /* in whole windows: without a mark before the clone, or unknown */
	struct gck_ranges since;   /* the same once the clone was there */
	uint64_t spoiled[GCK_SPOILED_MAX]; /* windows that may differ in the clone */
	unsigned nspoiled;
};

/* Take what lies on the shelf (process.h). */
void gck_marks_take(struct gck_marks *m, const int shelf[2]);

/* Put it there: the marks count from the image with this manifest. */
void gck_marks_leave(struct gck_marks *m, const int shelf[2]);

/* With the rank held: note what was written, and mark all that is worth it. */
void gck_marks_set(struct gck_marks *m, const struct gck_target *t, const struct gck_image *img);

/* The clone is there: note what was written in between, by the helper for one. */
void gck_marks_settle(struct gck_marks *m, const struct gck_target *t, const struct gck_image *img);

/* The clone may have written at this address, which the rank did not: the window's marks do not count. */
void gck_marks_spoil(struct gck_marks *m, uint64_t address);

/* Has all of a window the marks of that manifest? */
bool gck_marks_unwritten(const struct gck_marks *m, uint64_t window);

/* No marks any more: everything is read. */
void gck_marks_drop(struct gck_marks *m);

#endif
